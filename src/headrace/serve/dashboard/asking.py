"""What pages ask views, each question shared by all who ask it: rows for a grid, and for a chart as few as it needs.

A chart that adds up has the view add up: a view may have more rows than anybody could draw.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.errors import BadRequest
from headrace.plan.catalog import Shown
from headrace.plan.nodes import Relation
from headrace.plan.types import identifier_text as quoted
from headrace.serve.api.site import Site
from headrace.serve.api.views import Described, Named, get_view
from headrace.serve.dashboard.charts import MOST_ROWS, TIMES, Drawn, Panel, draw

_ADDED_UP = 28  # digits of a decimal that leave room for ten more, which is all a decimal has
_CLOCK = "UNIX_"
"""In a condition: its answer changes by itself."""


@dataclass(frozen=True)
class Select:
    """A question to one view, in the parts of KSQL; each is planned with the rights of who asks."""

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
class Answer:
    """`times` are the places of columns that hold times."""

    columns: list[str]
    rows: list[list[Any]]
    times: frozenset[int]


def stamp_of(site: Site, view: str, where: str) -> object:
    """How far the view is; None while that is not known, or does not tell."""
    described: Described = get_view(site, Named(view=view))
    return None if described.position is None or _CLOCK in where.upper() else described


def answered(site: Site, asked: Select) -> Answer:
    name = get_view(site, Named(view=asked.view)).name
    ask = site.node.asked(asked.text(name), rights=site.rights)
    if ask.push or {one.name for one in ask.query.sources} != {name} or ask.limit != asked.limit:
        raise BadRequest("condition and order must each be whole", fix="ask for more than that on the page Statements")
    with site.node.pulls.answered(ask) as pulled:
        rows = [row_of(row.text, ask.columns) for batch in pulled.batches for row in batch]
    return Answer([column.name for column in ask.columns], rows, times_in(ask.columns))


def times_in(columns: Sequence[Shown]) -> frozenset[int]:
    return frozenset(place for place, one in enumerate(columns) if one.name in TIMES or pa.types.is_timestamp(one.type))


def row_of(text: bytes, columns: Sequence[Shown]) -> list[Any]:
    """A decimal keeps all its digits."""
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
class Rows:
    """Those of a view for which a condition holds, and which hold a text in any column."""

    view: str
    where: str = ""
    order: str = ""
    text: str = ""
    limit: int = 1_000

    def stamp(self, site: Site) -> object:
        return stamp_of(site, self.view, self.where)

    def answer(self, site: Site) -> Answer:
        both = [f"({self.where})"] if self.where else []
        both += [f"({_holds(_relation(site, self.view), self.text)})"] if self.text else []
        return answered(site, Select(self.view, "*", " AND ".join(both), "", self.order, self.limit))


def _holds(relation: Relation, wanted: str) -> str:
    """A condition: upper and lower case are the same."""
    literal = "'" + wanted.lower().replace("'", "''") + "'"
    shown = [field for field in relation.columns if not pa.types.is_binary(field.type)]
    return " OR ".join(f"INSTR(LCASE(CAST({quoted(one.name)} AS STRING)), {literal}) > 0" for one in shown) or "FALSE"


def _relation(site: Site, view: str) -> Relation:
    return site.node.catalog.sources[get_view(site, Named(view=view)).name].relation


# -- charts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing:
    """A chart, drawn."""

    panel: Panel

    def stamp(self, site: Site) -> object:
        return stamp_of(site, self.panel.view, self.panel.where)

    def answer(self, site: Site) -> Drawn:
        relation = _relation(site, self.panel.view)
        asked = select_of(self.panel, relation)
        found = answered(site, asked)
        places = [found.columns.index(name) if name in found.columns else None for name in ("x", "y", "by")]
        rows = [[None if place is None else row[place] for place in places] for row in found.rows[:MOST_ROWS]]
        return draw(self.panel, rows, times_of(relation), is_cut=len(found.rows) > MOST_ROWS)


def times_of(relation: Relation) -> frozenset[str]:
    return frozenset(TIMES) | {one.name for one in relation.columns if pa.types.is_timestamp(one.type)}


def select_of(panel: Panel, relation: Relation) -> Select:
    """One row more than is drawn tells that there are more."""
    make = _SELECTS.get(panel.kind, _rows_of)
    return Select(panel.view, **{"where": panel.where, "limit": MOST_ROWS + 1, **make(panel, relation)})


def _rows_of(panel: Panel, relation: Relation) -> dict[str, Any]:
    named = {"x": panel.x, "y": panel.y, "by": panel.by}
    return {"columns": ", ".join(f"{quoted(name)} AS `{role}`" for role, name in named.items() if name)}


def _latest(panel: Panel, relation: Relation) -> dict[str, Any]:
    where = f"({panel.where}) AND " if panel.where else ""
    return {
        **_rows_of(panel, relation),
        "where": f"{where}{quoted(panel.x)} IS NOT NULL",
        "order": "`x` DESC",
    }


def _sum_of(panel: Panel, relation: Relation) -> dict[str, Any]:
    return {"columns": f"{_summed(panel.y, relation)} AS `y`"}


def _sums_of(panel: Panel, relation: Relation) -> dict[str, Any]:
    named = {"x": panel.x, "by": panel.by}
    groups = {role: quoted(name) for role, name in named.items() if name}
    columns = [f"{name} AS `{role}`" for role, name in groups.items()]
    return {
        "columns": ", ".join([*columns, f"{_summed(panel.y, relation)} AS `y`"]),
        "group": ", ".join(dict.fromkeys(groups.values())),
    }


def _bars_of(panel: Panel, relation: Relation) -> dict[str, Any]:
    latest = " DESC" if panel.x in times_of(relation) else ""
    return {**_sums_of(panel, relation), "order": f"`x`{latest}"}


def _largest(panel: Panel, relation: Relation) -> dict[str, Any]:
    alone = Panel(panel.kind, panel.view, panel.x, panel.y)
    return {**_sums_of(alone, relation), "order": "`y` DESC", "limit": panel.most}


_SELECTS = {"line": _latest, "number": _sum_of, "bar": _bars_of, "top": _largest, "heat": _sums_of}


def _summed(name: str, relation: Relation) -> str:
    """Wide enough that a sum does not run over; texts count as far as they are numbers."""
    field = relation.column(name)
    kind = pa.int64() if field is None else field.type
    if pa.types.is_integer(kind):
        return f"SUM(CAST({quoted(name)} AS BIGINT))"
    if pa.types.is_decimal(kind) and kind.precision <= _ADDED_UP:
        return f"SUM(CAST({quoted(name)} AS DECIMAL(38, {kind.scale})))"
    if pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind):
        return f"SUM(CAST({quoted(name)} AS DOUBLE))"
    raise BadRequest(f"{name} holds no numbers", fix="choose a column of numbers")
