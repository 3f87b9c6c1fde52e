"""Pull queries of the console on views, shared by all pages: rows for a grid, and as few rows as a chart needs.

A chart that aggregates lets the view aggregate: a view may have more rows than could be drawn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from headrace.errors import BadRequest
from headrace.plan.actions import ResultColumn
from headrace.plan.relations import Relation
from headrace.plan.types import identifier_text as quoted
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.views import ViewDescription, ViewRequest, get_view
from headrace.serve.console.widgets.chart_panel import MAX_ROWS, TIME_COLUMNS, ChartPanel
from headrace.serve.console.widgets.charts import DrawnChart, draw_chart

_ADDED_UP = 28  # digits of a decimal that leave room for ten more: a decimal has at most 38
_CLOCK = "UNIX_"
"""In a condition: a function of the current time, so the result changes without a change of the view."""


@dataclass(frozen=True)
class ViewSelect:
    """A pull query on one view, by its KSQL clauses; it is planned with the rights of the user."""

    view: str
    columns: str = "*"
    where: str = ""
    group: str = ""
    order: str = ""
    limit: int = 1_000

    def text(self, name: str) -> str:
        parts = [f"SELECT {self.columns} FROM {quoted(name)}"]
        parts += [f"WHERE {self.where}"] if self.where else []
        parts += [f"GROUP BY {self.group}"] if self.group else []
        parts += [f"ORDER BY {self.order}"] if self.order else []
        return " ".join([*parts, f"LIMIT {self.limit};"])


@dataclass(frozen=True)
class ViewRows:
    """Rows of a view; `times` are the indexes of columns that hold times."""

    columns: list[str]
    rows: list[list[Any]]
    times: frozenset[int]


def view_version(context: RequestContext, view: str, where: str) -> object:
    """The version of the view; None if it is unknown, or if the result also depends on the clock."""
    described: ViewDescription = get_view(context, ViewRequest(view=view))
    return None if described.position is None or _CLOCK in where.upper() else described


def run_select(context: RequestContext, params: ViewSelect) -> ViewRows:
    name = get_view(context, ViewRequest(view=params.view)).name
    ask = context.node.plan_select(params.text(name), rights=context.rights)
    if ask.push or {one.name for one in ask.query.sources} != {name} or ask.limit != params.limit:
        raise BadRequest("a filter or a sort order is not a single expression", fix="run other queries as statements")
    with context.node.pull_queries.execute(ask) as pulled:
        rows = [parse_row(row.text, ask.columns) for batch in pulled.batches for row in batch]
        charge_rows(len(rows))
        charge_rows(len(rows))
    return ViewRows([column.name for column in ask.columns], rows, time_columns(ask.columns))


def time_columns(columns: Sequence[ResultColumn]) -> frozenset[int]:
    return frozenset(
        place for place, one in enumerate(columns) if one.name in TIME_COLUMNS or pa.types.is_timestamp(one.type)
    )


def parse_row(text: bytes, columns: Sequence[ResultColumn]) -> list[Any]:
    """Parse a row. A decimal retains all its digits."""
    if not any(pa.types.is_decimal(column.type) for column in columns):
        return json.loads(text)
    read = json.loads(text, parse_float=Decimal)
    return [
        value if pa.types.is_decimal(column.type) else _floats(value)
        for value, column in zip(read, columns, strict=True)
    ]


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_floats(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


# -- rows for a grid ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GridRequest:
    """Rows of a view that satisfy a condition and contain a text in any column."""

    view: str
    where: str = ""
    order: str = ""
    text: str = ""
    limit: int = 1_000

    work: ClassVar = WorkClass.PULL

    def stamp(self, context: RequestContext) -> object:
        return view_version(context, self.view, self.where)

    def answer(self, context: RequestContext) -> ViewRows:
        both = [f"({self.where})"] if self.where else []
        both += [f"({_holds(_relation(context, self.view), self.text)})"] if self.text else []
        return run_select(context, ViewSelect(self.view, "*", " AND ".join(both), "", self.order, self.limit))


def _holds(relation: Relation, text: str) -> str:
    """A condition that some column contains the text, ignoring case."""
    literal = "'" + text.lower().replace("'", "''") + "'"
    fields = [field for field in relation.columns if not pa.types.is_binary(field.type)]
    return " OR ".join(f"INSTR(LCASE(CAST({quoted(one.name)} AS STRING)), {literal}) > 0" for one in fields) or "FALSE"


def _relation(context: RequestContext, view: str) -> Relation:
    return context.node.catalog.sources[get_view(context, ViewRequest(view=view)).name].relation


# -- charts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChartRequest:
    """A chart, drawn from its query's rows."""

    panel: ChartPanel

    work: ClassVar = WorkClass.PULL

    def stamp(self, context: RequestContext) -> object:
        return view_version(context, self.panel.view, self.panel.where)

    def answer(self, context: RequestContext) -> DrawnChart:
        relation = _relation(context, self.panel.view)
        params = chart_select(self.panel, relation)
        result = run_select(context, params)
        places = [result.columns.index(name) if name in result.columns else None for name in ("x", "y", "by")]
        rows = [[None if place is None else row[place] for place in places] for row in result.rows[:MAX_ROWS]]
        return draw_chart(self.panel, rows, time_fields(relation), is_cut=len(result.rows) > MAX_ROWS)


def time_fields(relation: Relation) -> frozenset[str]:
    return frozenset(TIME_COLUMNS) | {one.name for one in relation.columns if pa.types.is_timestamp(one.type)}


def chart_select(panel: ChartPanel, relation: Relation) -> ViewSelect:
    """The query of a chart. One row more than is drawn shows that there are more."""
    make = _SELECTS.get(panel.kind, _rows_of)
    return ViewSelect(panel.view, **{"where": panel.where, "limit": MAX_ROWS + 1, **make(panel, relation)})


def _rows_of(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    named = {"x": panel.x, "y": panel.y, "by": panel.by}
    return {"columns": ", ".join(f"{quoted(name)} AS `{role}`" for role, name in named.items() if name)}


def _latest(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    where = f"({panel.where}) AND " if panel.where else ""
    return {
        **_rows_of(panel, relation),
        "where": f"{where}{quoted(panel.x)} IS NOT NULL",
        "order": "`x` DESC",
    }


def _sum_of(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    return {"columns": f"{_summed(panel.y, relation)} AS `y`"}


def _sums_of(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    named = {"x": panel.x, "by": panel.by}
    groups = {role: quoted(name) for role, name in named.items() if name}
    columns = [f"{name} AS `{role}`" for role, name in groups.items()]
    return {
        "columns": ", ".join([*columns, f"{_summed(panel.y, relation)} AS `y`"]),
        "group": ", ".join(dict.fromkeys(groups.values())),
    }


def _bars_of(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    latest = " DESC" if panel.x in time_fields(relation) else ""
    return {**_sums_of(panel, relation), "order": f"`x`{latest}"}


def _largest(panel: ChartPanel, relation: Relation) -> dict[str, Any]:
    alone = ChartPanel(panel.kind, panel.view, panel.x, panel.y)
    return {**_sums_of(alone, relation), "order": "`y` DESC", "limit": panel.most}


_SELECTS = {"line": _latest, "number": _sum_of, "bar": _bars_of, "top": _largest, "heat": _sums_of}


def _summed(name: str, relation: Relation) -> str:
    """A sum wide enough not to overflow; text counts where it is numeric."""
    field = relation.column(name)
    kind = pa.int64() if field is None else field.type
    if pa.types.is_integer(kind):
        return f"SUM(CAST({quoted(name)} AS BIGINT))"
    if pa.types.is_decimal(kind) and kind.precision <= _ADDED_UP:
        return f"SUM(CAST({quoted(name)} AS DECIMAL(38, {kind.scale})))"
    if pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind):
        return f"SUM(CAST({quoted(name)} AS DOUBLE))"
    raise BadRequest(f"column {name} is not numeric", fix="choose a numeric column")
