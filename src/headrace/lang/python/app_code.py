"""The code of an app: a Python file, sent to the processes that run its functions.

The text of the file is sent, not its path: a query runs the code it was started with, even if the file changes. The
receiving process executes it once, which declares its functions and operators; `__name__` is then not `"__main__"`, and
`headrace.run` does nothing. Apps of one process may have functions of the same name: each uses its own. If the code
fails, none of its declarations take effect.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import ClassVar
from uuid import uuid4

from headrace.errors import BadPython, HeadraceError
from headrace.import_path import add_folder
from headrace.lang.python.app import App, created_apps
from headrace.plan import operators
from headrace.plan.functions import restore_user_functions, user_functions, withdraw
from headrace.plan.functions.declaration import Function
from headrace.plan.operators import OPERATORS, OperatorDefinition, declare


@dataclass(frozen=True)
class AppCode:
    """The code that a process must execute before it can run the app's queries: calling it executes the code once."""

    source: str
    path: str = field(default="app.py", compare=False)

    @property
    def name(self) -> str:
        """Default name of an app: that of the file, in characters allowed in a folder name."""
        return re.sub(r"[^A-Za-z0-9_-]", "-", Path(self.path).stem)

    @property
    def module(self) -> str:
        return f"headrace_app_{self.sha256[:16]}"

    @property
    def sha256(self) -> str:
        return sha256(self.source.encode()).hexdigest()

    @property
    def declared(self) -> Declarations:
        """The declarations of the code, which is executed first if necessary."""
        if self.module not in _EXECUTED:
            execute(self)
        return _EXECUTED[self.module]

    def __call__(self) -> None:
        self.declared()


@dataclass(frozen=True)
class CombinedSetup:
    """The setup of several apps whose functions one query calls."""

    setups: tuple[Callable[[], None], ...]

    def __call__(self) -> None:
        for setup in self.setups:
            setup()


@dataclass(frozen=True)
class Declarations:
    """Functions and operators as objects. Without a file, as in a notebook, they are sent instead of code: they must be
    pickled by value, which Spark does, so such an app cannot run in a process per query.
    """

    name: ClassVar[str] = "app"

    token: str
    functions: Sequence[Function] = field(compare=False)
    operators: Sequence[OperatorDefinition] = field(compare=False)

    @property
    def names(self) -> set[str]:
        """Names in the form of `user_code_versions`."""
        return {f"function {one.name}" for one in self.functions} | {f"operator {one.name}" for one in self.operators}

    def __call__(self) -> None:
        restore_user_functions(self.functions)
        for kind in self.operators:
            declare(kind)

    def __sub__(self, before: Declarations) -> Declarations:
        """Returns the declarations added since `before`."""
        known = {id(one) for one in (*before.functions, *before.operators)}
        return replace(
            self,
            functions=[one for one in self.functions if id(one) not in known],
            operators=[one for one in self.operators if id(one) not in known],
        )

    def withdraw(self) -> None:
        withdraw(self.functions)
        for kind in self.operators:
            operators.withdraw(kind)


def all_declarations() -> Declarations:
    """Returns everything declared in this process so far."""
    return Declarations(uuid4().hex, user_functions(), tuple(OPERATORS.values()))


_EXECUTED: dict[str, Declarations] = {}
"""Declarations by the module of their code: other code may have replaced the names since."""


def load(path: Path | str) -> tuple[AppCode, App]:
    """Execute a file in this process; returns its code and the app that it creates."""
    try:
        code = AppCode(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadPython(f'"{path}" cannot be read: {error}', fix="check its path") from error
    return code, app_of(code)


def app_of(code: AppCode) -> App:
    """Execute the code again in this process; returns the app that it creates."""
    with created_apps() as apps:
        module = execute(code)
    return _find_app(module, apps, code.path)


def script_code() -> AppCode | Declarations:
    """Return the code of the running script; in a notebook or at a prompt, the declarations so far."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        return all_declarations()
    code = AppCode(Path(path).read_text(encoding="utf-8"), path)
    sys.modules.setdefault(code.module, main)  # already executed, as `__main__`
    _EXECUTED[code.module] = all_declarations()
    return code


def execute(code: AppCode) -> ModuleType:
    """Execute the text as a module; modules in its folder can be imported."""
    module = ModuleType(code.module)
    module.__file__ = code.path
    sys.modules[code.module] = module
    if os.path.isabs(code.path) or os.path.isfile(code.path):  # else it is a mere name, and no folder is meant
        add_folder(str(Path(code.path).resolve().parent))
    # `inspect` must find the text that was executed, not the current content of the file.
    linecache.cache[code.path] = (len(code.source), None, code.source.splitlines(keepends=True), code.path)
    before = all_declarations()
    try:
        with _loading():
            exec(compile(code.source, code.path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[code.module]
        (all_declarations() - before).withdraw()
        before()
        if isinstance(error, HeadraceError):
            raise
        raise BadPython(f"{type(error).__name__}: {error}", where=_line(error, code.path)) from error
    _EXECUTED[code.module] = all_declarations() - before
    return module


def is_loading() -> bool:
    """Whether a file is being executed for its declarations."""
    return _depth > 0


_depth = 0


@contextmanager
def _loading() -> Iterator[None]:
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def _find_app(module: ModuleType, apps: list[App], path: str) -> App:
    named = vars(module).get("app")
    if isinstance(named, App):
        return named
    if len(apps) != 1:
        raise BadPython(
            f'"{path}" creates {len(apps)} apps', fix='create one, or assign the one to use to "app": app = hr.App()'
        )
    return apps[0]


def _line(error: BaseException, path: str) -> str:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    return f"{path}:{line or getattr(error, 'lineno', 0) or 1}"
