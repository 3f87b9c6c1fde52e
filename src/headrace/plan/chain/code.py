"""Generated Python: the pieces from which a step's source is put together, compiled once.

Every expression becomes one Python expression (see `writing`), with null checks in line, so that a step is one loop
without a call per row. Columns are read once, at the top of the loop, and constants are names of the module that the
source becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from types import CodeType
from typing import Any

from headrace.plan.chain.contract import Context, Problem
from headrace.plan.expressions import PSEUDO, ROWTIME, WINDOWSTART, Expression, Named
from headrace.plan.nodes import Relation

MAX_DEPTH = 30
"""Python's parser takes two hundred nested brackets; what lies deeper becomes a function of its own."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression's source, whether it may be null, and whether it may raise."""

    text: str
    nullable: bool = True
    raises: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Statements to run first, and an expression that stands for the result and does not raise."""

    lines: tuple[str, ...]
    text: str


class Code:
    """Source in the making: over `time`, `key` and `row` of one relation."""

    def __init__(self, relation: Relation, context: Context, where: str) -> None:
        self.relation = relation
        self.context = context
        self.where = self._place = where
        self.names: dict[str, Any] = {"failed": self._failed, "guard": self._guard}
        self.variables: dict[str, str] = {}
        self._loads: dict[str, str] = {}
        self._depth = 0

    def values(self, expressions: Sequence[Expression]) -> Lines:
        """A tuple of all; what fails is reported and null."""
        return self._tuple([self._safe(self.piece(expression)) for expression in expressions])

    def columns(self, columns: Sequence[Named]) -> Lines:
        """The same for expressions that have names, which then stand in the reports."""
        made: list[Lines] = []
        for column in columns:
            self._place = f"{self.where}, column {column.name}"
            made.append(self._safe(self.piece(column.expression)))
        return self._tuple(made)

    def condition(self, expression: Expression) -> Lines:
        """True or false; what fails is reported and false."""
        piece = self.piece(expression)
        made = self._safe(piece)
        return Lines(made.lines, f"{made.text} is True" if piece.nullable or piece.raises else made.text)

    def opening(self, *, row_may_be_none: bool = False) -> list[str]:
        """Statements that read the columns in use. They must come before everything else, but be asked for last."""
        check = ["if row is None:", f"    row = {self.constant((None,) * len(self.relation.value))}"]
        return [*(check if row_may_be_none else []), *(f"{name} = {load}" for load, name in self._loads.items())]

    def function(self, parameters: str, body: Sequence[str]) -> Callable[..., Any]:
        """The function with that body."""
        source = "\n".join([f"def made({parameters}):", *indented(body)])
        exec(_compiled(source), self.names)
        return self.names.pop("made")

    # -- for the writers of expressions ----------------------------------------------------------------------------

    def piece(self, expression: Expression) -> Piece:
        """The expression's source."""
        from headrace.plan.chain.writing import write

        self._depth += 1
        try:
            return write(expression, self) if self._depth < MAX_DEPTH else self._apart(expression)
        finally:
            self._depth -= 1

    def guarded(self, expression: Expression) -> Piece:
        """The expression, giving null by itself when it fails, so that what is around it goes on."""
        piece = self.piece(expression)
        return Piece(f"guard(lambda: {piece.text}, {self._place!r}, time, key, row)") if piece.raises else piece

    def name(self) -> str:
        """A name that nobody has."""
        self.names["count"] = count = self.names.get("count", 0) + 1
        return f"t{count}"

    def constant(self, value: Any) -> str:
        """Source for a value: itself where Python can write it, else a name."""
        if value is None or type(value) in (bool, int, str, bytes) or (type(value) is float and isfinite(value)):
            return f"({value!r})" if isinstance(value, int | float) else repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def column(self, name: str) -> Piece:
        """A column of the relation, or one of the pseudo columns."""
        for i, column in enumerate(self.relation.value):
            if column.name == name:
                return self._load(f"row[{i}]", f"r{i}")
        for i, column in enumerate(self.relation.key):
            if column.name == name:
                return self._load(f"key[{i}] if key else None", f"k{i}")
        if name == ROWTIME:
            return Piece("time", nullable=False)
        if name in PSEUDO:
            bound = 0 if name == WINDOWSTART else 1
            return self._load(f"key[{len(self.relation.key)}][{bound}] if key else None", f"w{bound}")
        raise LookupError(f'no column "{name}" among {[f.name for f in self.relation.columns]}')

    # ---------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _tuple(made: Sequence[Lines]) -> Lines:
        text = "".join(f"{value.text}, " for value in made)
        return Lines(tuple(line for value in made for line in value.lines), f"({text})")

    def _load(self, load: str, name: str) -> Piece:
        return Piece(self._loads.setdefault(load, name))

    def _safe(self, piece: Piece) -> Lines:
        if not piece.raises:
            return Lines((), piece.text)
        name = self.name()
        report = f"    {name} = failed(error, {self._place!r}, time, key, row)"
        return Lines(("try:", f"    {name} = {piece.text}", "except Exception as error:", report), name)

    def _apart(self, expression: Expression) -> Piece:
        inner = Code(self.relation, self.context, self._place)
        inner.names, inner.variables = self.names, self.variables
        piece = inner.piece(expression)
        arguments = ", ".join(["time", "key", "row", *self.variables.values()])
        made = inner.function(arguments, [*inner.opening(), f"return {piece.text}"])
        return Piece(f"{self.constant(made)}({arguments})", piece.nullable, piece.raises)

    def _failed(self, error: Exception, where: str, time: int, key: Any, row: Any) -> None:
        reason = str(error) or type(error).__name__
        self.context.report(Problem("expression-failed", reason, where, time, key, row))

    def _guard(self, compute: Callable[[], Any], where: str, time: int, key: Any, row: Any) -> Any:
        try:
            return compute()
        except Exception as error:
            return self._failed(error, where, time, key, row)


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@lru_cache(4096)
def _compiled(source: str) -> CodeType:
    return compile(source, "<step>", "exec")
