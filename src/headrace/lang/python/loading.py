"""A Python file that holds an app, and its code on the way to wherever its functions run.

The text of the file travels, not its path: a query runs the code it was started with, whatever becomes of the file.
Where it arrives it is executed once, which declares its functions and operators; `__name__` is then not `"__main__"`,
and `headrace.run` does nothing. Apps of one process may have functions of one name: each has its own. If it fails,
nothing of it is declared.
"""

from __future__ import annotations

import linecache
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
from headrace.lang.python.app import App, apps_made
from headrace.plan import operators
from headrace.plan.functions import adopt, own, withdraw
from headrace.plan.functions.declare import Function
from headrace.plan.operators import OPERATORS, OperatorKind, declare


@dataclass(frozen=True)
class Code:
    """What a process must execute before it can run the app's queries: it is called there, and does it once."""

    source: str
    path: str = field(default="app.py", compare=False)

    @property
    def name(self) -> str:
        """For an app that has none: that of the file, as far as it can be one of a folder."""
        return re.sub(r"[^A-Za-z0-9_-]", "-", Path(self.path).stem)

    @property
    def module(self) -> str:
        return f"headrace_app_{sha256(self.source.encode()).hexdigest()[:16]}"

    @property
    def declared(self) -> Declarations:
        """What it declares; it is executed if it was not yet."""
        if self.module not in _EXECUTED:
            execute(self)
        return _EXECUTED[self.module]

    def __call__(self) -> None:
        self.declared()


@dataclass(frozen=True)
class Together:
    """Of several apps, whose functions one query calls."""

    setups: tuple[Callable[[], None], ...]

    def __call__(self) -> None:
        for setup in self.setups:
            setup()


@dataclass(frozen=True)
class Declarations:
    """Functions and operators themselves. Where there is no file, as in a notebook, they travel instead of code: they
    must be pickled by value, which Spark does, so such an app cannot run in a process of its own."""

    name: ClassVar[str] = "app"

    token: str
    functions: Sequence[Function] = field(compare=False)
    operators: Sequence[OperatorKind] = field(compare=False)

    @property
    def names(self) -> set[str]:
        """As `own_code` of a plan tells them."""
        return {f"function {one.name}" for one in self.functions} | {f"operator {one.name}" for one in self.operators}

    def __call__(self) -> None:
        adopt(self.functions)
        for kind in self.operators:
            declare(kind)

    def __sub__(self, before: Declarations) -> Declarations:
        """Those that have come since."""
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


def declared() -> Declarations:
    """What has been declared in this process so far."""
    return Declarations(uuid4().hex, own(), tuple(OPERATORS.values()))


_EXECUTED: dict[str, Declarations] = {}
"""By module, what its code has declared: others may have taken names since."""


def load(path: Path | str) -> tuple[Code, App]:
    """The code of a file, executed in this process, and the app that it makes."""
    try:
        code = Code(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadPython(f'"{path}" cannot be read: {error}', fix="check its path") from error
    return code, app_of(code)


def app_of(code: Code) -> App:
    """The app that it makes; executed in this process, anew."""
    with apps_made() as made:
        module = execute(code)
    return _chosen(module, made, code.path)


def main_code() -> Code | Declarations:
    """That of the script which is running; in a notebook or at a prompt, what was declared so far."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        return declared()
    code = Code(Path(path).read_text(encoding="utf-8"), path)
    sys.modules.setdefault(code.module, main)  # it has been executed, as what it is
    _EXECUTED[code.module] = declared()
    return code


def execute(code: Code) -> ModuleType:
    """Run the text as a module; modules beside the file can be imported."""
    module = ModuleType(code.module)
    module.__file__ = code.path
    sys.modules[code.module] = module
    folder = str(Path(code.path).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Whoever looks for the text of a function finds the one that was executed, not what the file has become.
    linecache.cache[code.path] = (len(code.source), None, code.source.splitlines(keepends=True), code.path)
    before = declared()
    try:
        with _loading():
            exec(compile(code.source, code.path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[code.module]
        (declared() - before).withdraw()
        before()
        if isinstance(error, HeadraceError):
            raise
        raise BadPython(f"{type(error).__name__}: {error}", where=_line(error, code.path)) from error
    _EXECUTED[code.module] = declared() - before
    return module


def is_loading() -> bool:
    """Whether a file is executed for what it declares."""
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


def _chosen(module: ModuleType, made: list[App], path: str) -> App:
    named = vars(module).get("app")
    if isinstance(named, App):
        return named
    if len(made) != 1:
        raise BadPython(
            f'"{path}" makes {len(made)} apps', fix='make one, or call the one that is meant "app": app = hr.App()'
        )
    return made[0]


def _line(error: BaseException, path: str) -> str:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    return f"{path}:{line or getattr(error, 'lineno', 0) or 1}"
