"""Builds and compiles the generated Python source of a step.

Every expression becomes one Python expression (see `expression_code`) with inline null checks, so that a step is one
loop without a call per row. Columns are read once, at the top of the loop, and constants are module-level names of the
generated source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from types import CodeType
from typing import Any

from headrace.errors import QueryEnded
from headrace.plan.allowance import begin_record, record_allowance
from headrace.plan.expressions import PSEUDO, ROWTIME, WINDOWSTART, Expression, NamedExpression
from headrace.plan.relations import Relation
from headrace.plan.steps import Context, Problem

MAX_DEPTH = 30
"""Python's parser accepts two hundred nested brackets; deeper expressions become a separate function."""


@dataclass(frozen=True, slots=True)
class ExpressionCode:
    """An expression's source, whether it may be null, and whether it may raise."""

    text: str
    nullable: bool = True
    raises: bool = False


@dataclass(frozen=True, slots=True)
class StatementCode:
    """Statements to run first, and an expression for the result that does not raise."""

    lines: tuple[str, ...]
    text: str


class CodeBuilder:
    """Builds source over `time`, `key` and `row` of one relation."""

    def __init__(self, relation: Relation, context: Context, where: str) -> None:
        self.relation = relation
        self.context = context
        self.where = self._place = where
        self.names: dict[str, Any] = {"failed": self._failed, "guard": self._guard}
        self.variables: dict[str, str] = {}
        self._loads: dict[str, str] = {}
        self._depth = 0
        self._charges = self._is_inner = False

    def values(self, expressions: Sequence[Expression]) -> StatementCode:
        """Returns code for a tuple of all expressions; one that fails is reported and null."""
        return self._tuple([self._safe(self.piece(expression)) for expression in expressions])

    def columns(self, columns: Sequence[NamedExpression]) -> StatementCode:
        """The same for named expressions; the names appear in the reports."""
        values: list[StatementCode] = []
        for column in columns:
            self._place = f"{self.where}, column {column.name}"
            values.append(self._safe(self.piece(column.expression)))
        return self._tuple(values)

    def condition(self, expression: Expression) -> StatementCode:
        """Returns code for true or false; a condition that fails is reported and false."""
        piece = self.piece(expression)
        code = self._safe(piece)
        return StatementCode(code.lines, f"{code.text} is True" if piece.nullable or piece.raises else code.text)

    def opening(self, *, row_may_be_none: bool = False) -> list[str]:
        """Returns the statements that read the columns in use. Call it last, but put them first."""
        check = ["if row is None:", f"    row = {self.constant((None,) * len(self.relation.value))}"]
        loads = [f"{name} = {load}" for load, name in self._loads.items()]
        return [*(check if row_may_be_none else []), *self._open_allowance(), *loads]

    def _open_allowance(self) -> list[str]:
        if not self._charges:
            return []
        return [f"allowance = {self.constant(record_allowance if self._is_inner else begin_record)}()"]

    def function(self, parameters: str, body: Sequence[str]) -> Callable[..., Any]:
        """Compiles a function with that body."""
        source = "\n".join([f"def compiled({parameters}):", *indented(body)])
        exec(_compiled(source), self.names)
        return self.names.pop("compiled")

    # -- used by `expression_code` ---------------------------------------------------------------------------------

    def piece(self, expression: Expression) -> ExpressionCode:
        """Returns the expression's source."""
        from headrace.plan.codegen.expression_code import expression_code

        self._depth += 1
        try:
            return expression_code(expression, self) if self._depth < MAX_DEPTH else self._separate_function(expression)
        finally:
            self._depth -= 1

    def guarded(self, expression: Expression) -> ExpressionCode:
        """Returns the expression so that a failure in it gives null, without failing what contains it."""
        piece = self.piece(expression)
        return (
            ExpressionCode(f"guard(lambda: {piece.text}, {self._place!r}, time, key, row)") if piece.raises else piece
        )

    def charged(self, text: str, by: str) -> str:
        """Returns source that charges a value to the allowance of the record; `by` names what creates it."""
        self._charges = True
        return f"allowance.charge({text}, {by!r})"

    def name(self) -> str:
        """Returns an unused name."""
        self.names["count"] = count = self.names.get("count", 0) + 1
        return f"t{count}"

    def constant(self, value: Any) -> str:
        """Returns source for a value: a literal where Python has one, else a name."""
        if value is None or type(value) in (bool, int, str, bytes) or (type(value) is float and isfinite(value)):
            return f"({value!r})" if isinstance(value, int | float) else repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def column(self, name: str) -> ExpressionCode:
        """Returns code for a column of the relation, or a pseudo column."""
        for i, column in enumerate(self.relation.value):
            if column.name == name:
                return self._load(f"row[{i}]", f"r{i}")
        for i, column in enumerate(self.relation.key):
            if column.name == name:
                return self._load(f"key[{i}] if key else None", f"k{i}")
        if name == ROWTIME:
            return ExpressionCode("time", nullable=False)
        if name in PSEUDO:
            bound = 0 if name == WINDOWSTART else 1
            return self._load(f"key[{len(self.relation.key)}][{bound}] if key else None", f"w{bound}")
        raise LookupError(f'no column "{name}" among {[f.name for f in self.relation.columns]}')

    # ---------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _tuple(values: Sequence[StatementCode]) -> StatementCode:
        text = "".join(f"{value.text}, " for value in values)
        return StatementCode(tuple(line for value in values for line in value.lines), f"({text})")

    def _load(self, load: str, name: str) -> ExpressionCode:
        return ExpressionCode(self._loads.setdefault(load, name))

    def _safe(self, piece: ExpressionCode) -> StatementCode:
        if not piece.raises:
            return StatementCode((), piece.text)
        name = self.name()
        report = f"    {name} = failed(error, {self._place!r}, time, key, row)"
        return StatementCode(("try:", f"    {name} = {piece.text}", "except Exception as error:", report), name)

    def _separate_function(self, expression: Expression) -> ExpressionCode:
        inner = CodeBuilder(self.relation, self.context, self._place)
        inner.names, inner.variables = self.names, self.variables
        inner._is_inner = True
        piece = inner.piece(expression)
        self._charges |= inner._charges
        arguments = ", ".join(["time", "key", "row", *self.variables.values()])
        function = inner.function(arguments, [*inner.opening(), f"return {piece.text}"])
        return ExpressionCode(f"{self.constant(function)}({arguments})", piece.nullable, piece.raises)

    def _failed(self, error: Exception, where: str, time: int, key: Any, row: Any) -> None:
        if isinstance(error, QueryEnded | MemoryError):
            raise error
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
