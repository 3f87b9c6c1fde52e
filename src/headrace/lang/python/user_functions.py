"""Python functions that KSQL can call: typed by their annotations, declared like the built-in ones.

    >>> import headrace as hr
    >>> app = hr.App()
    >>> @app.function
    ... def mask_card(card: str) -> str:
    ...     return "*" * (len(card) - 4) + card[-4:]
    >>> mask_card("1234567812345678")
    '************5678'
    >>> mask_card(hr.col.card)
    MASK_CARD(`CARD`)

A null argument gives null without a call, unless that parameter is `T | None`. If a function raises, or returns a value
of another type, that is reported with its row (`expression-failed`) and gives null, as with built-in functions. It must
be deterministic, since after a crash it is called again; `repeatable=False` says that it is not. A query whose state
depends on a function does not resume with changed code of it, unless `version` is the same.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import pyarrow as pa

from headrace.errors import BadPython
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.python.annotations import TypeMapping, mapping_of_type, sql_type, type_mapping
from headrace.lang.python.code_version import version_of
from headrace.lang.python.expressions import Expr
from headrace.lang.python.functions import call
from headrace.plan.functions import declare
from headrace.plan.functions.declaration import Function, NullRule, Overload
from headrace.schema import type_name

P = ParamSpec("P")
R = TypeVar("R")


class UserFunction(Generic[P, R]):
    """Called with Python values, it is the function itself; with expressions, it is a call computed for each row."""

    def __init__(self, python: Callable[P, R], declared: Function) -> None:
        self._python = python
        self.declared = declared
        update_wrapper(self, python)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if any(isinstance(argument, Expr) for argument in arguments):
            return call(self.declared.name, *arguments)
        return self._python(*arguments, **named)


def row_function(
    python: Callable[P, R], name: str | None = None, *, repeatable: bool = True, version: str | None = None
) -> UserFunction[P, R]:
    """Declare a function of single rows."""
    where = _where(python)
    hints = typing.get_type_hints(python, include_extras=True)
    names = [*inspect.signature(python).parameters]
    if missing := [name for name in (*names, "return") if name not in hints]:
        raise BadPython(
            f'function "{python.__name__}" does not declare the type of {", ".join(missing)}',
            where=where,
            fix="annotate its parameters and its result, for example def twice(n: int) -> int",
        )
    inputs, output = [type_mapping(hints[name], where) for name in names], type_mapping(hints["return"], where)
    overload = _overload(dict(zip(names, inputs, strict=True)), output, _rowwise(python, inputs, output))
    return _declared(python, name, replace(overload, version=version or version_of(python)), repeatable)


def batch_function(
    python: Callable[..., Any],
    input_types: Sequence[str],
    output_type: str,
    name: str | None = None,
    version: str | None = None,
) -> UserFunction[Any, Any]:
    """Declare a function of Arrow arrays, one per argument, all of the same length; it returns one of that length.

    Types are KSQL's. In record mode it gets arrays of one row, so it must not depend on other rows.
    """
    inputs, output = [mapping_of_type(sql_type(text)) for text in input_types], mapping_of_type(sql_type(output_type))
    names = [*inspect.signature(python).parameters]
    overload = _overload(dict(zip(names, inputs, strict=True)), output, _batchwise(python, inputs, output))
    return _declared(python, name, replace(overload, version=version or version_of(python)), True)


def _declared(python: Callable[..., Any], name: str | None, overload: Overload, repeatable: bool) -> UserFunction:
    doc = (inspect.getdoc(python) or f"Python: {python.__module__}.{python.__qualname__}").splitlines()[0]
    name = (name or python.__name__).upper()
    if not name.isidentifier() or name in RESERVED:
        raise BadPython(
            f'"{name}" is not a valid name for a function',
            where=_where(python),
            fix="choose one, for example name='tax'",
        )
    function = Function(name, doc, (overload,), area="user", repeatable=repeatable)
    declare(function, _where(python))
    return UserFunction(python, function)


def _overload(inputs: dict[str, TypeMapping], output: TypeMapping, python: Callable[..., Any]) -> Overload:
    parameters = ", ".join(f"{name}: {type_name(kind.type)}" for name, kind in inputs.items())
    nulls = NullRule.PASS if any(kind.optional for kind in inputs.values()) else NullRule.PROPAGATE
    return Overload(f"({parameters}) -> any", python, nulls, lambda types: output.type)


def _rowwise(python: Callable[..., Any], inputs: Sequence[TypeMapping], output: TypeMapping) -> Callable[..., Any]:
    needed = [at for at, kind in enumerate(inputs) if not kind.optional]

    def run(*values: Any) -> Any:
        if any(values[at] is None for at in needed):
            return None
        return output.write(python(*[kind.read(value) for kind, value in zip(inputs, values, strict=True)]))

    return run


def _batchwise(python: Callable[..., Any], inputs: Sequence[TypeMapping], output: TypeMapping) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        pairs = zip(inputs, values, strict=True)
        result = python(*[pa.array([kind.read(value)], kind.type) for kind, value in pairs])
        if len(result) != 1:
            raise ValueError(f"{len(result)} values were returned for 1 row")
        return output.write(result[0].as_py())

    return run


def _where(python: Callable[..., Any]) -> str:
    code = getattr(python, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(python)
