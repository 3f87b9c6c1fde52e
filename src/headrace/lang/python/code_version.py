"""Computes a version of a function's or operator's code, to detect changes.

It is a digest of the text without comments, docstrings and layout, of the functions and classes of the same file that
it names, and of the plain constants that it names there. Imports are not followed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from hashlib import sha256
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any

_ATOMS = (type(None), bool, int, float, str, bytes)


def version_of(definition: Any) -> str:
    """Return the version of a function or a class; the same wherever Python parses the text alike."""
    return sha256("\n".join(_parts(definition, set())).encode()).hexdigest()[:16]


def _parts(definition: Any, seen: set[int]) -> Iterator[str]:
    definition = inspect.unwrap(definition)
    if id(definition) in seen:
        return
    seen.add(id(definition))
    if isinstance(definition, FunctionType):
        yield _text(definition)
        for name, value in _outer_names(definition):
            yield from _parts_of_name(name, value, definition.__module__, seen)
    else:
        for name, value in inspect.getmembers_static(definition):
            yield from _parts_of_name(name, _function_behind(value), definition.__module__, seen)


def _parts_of_name(name: str, value: Any, module: str, seen: set[int]) -> Iterator[str]:
    """Yield the text of a constant or another definition of the same file; nothing for others."""
    if type(value) in _ATOMS and not name.startswith("__"):
        yield f"{name} = {value!r}"
    elif getattr(value, "__module__", None) == module and callable(value):
        yield name
        yield from _parts(value, seen)


def _function_behind(value: Any) -> Any:
    """Return the function behind a static method, a class method or a property."""
    return getattr(value, "__func__", None) or getattr(value, "fget", None) or value


def _outer_names(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names that the function takes from outside, with their values."""
    around = inspect.getclosurevars(function)
    yield from sorted(around.nonlocals.items())
    for name in sorted(set(_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(function: FunctionType) -> str:
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # typed at a prompt, or a lambda inside a call: use the bytecode
        return _compiled(function.__code__)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = []
            node.body = _undocumented(node.body)
    return ast.unparse(tree)


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *others]:
            return others or [ast.Pass()]
    return body


def _compiled(code: CodeType) -> str:
    constants: Iterable[Any] = (_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return f"{code.co_code.hex()} {' '.join(code.co_names)} {' '.join(constants)}"
