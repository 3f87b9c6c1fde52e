"""Tables that are declared, what is asked of them, and their topics' records: for the tests of views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.contracts import Append, Log, Topic, TopicSpec
from headrace.lang.ksql.grammar.parser import read_statements
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan.actions import Action, TransientSelect
from headrace.plan.catalog import Catalog
from headrace.plan.chain.row_codec import encode_row
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.record import Record
from headrace.views.contract import View
from headrace.views.materializer import open_view
from headrace.views.pull_query import Order, PullQuery
from headrace.views.sqlite import SqliteView

ALL_TYPES = """
CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, I INT, D DOUBLE, S STRING, B BOOLEAN, P DECIMAL(6, 2), W DECIMAL(30, 4),
  X BYTES, DA DATE, TI TIME, TS TIMESTAMP, A ARRAY<INT>, M MAP<STRING, DOUBLE>, C STRUCT<Y DECIMAL(5, 1), Z STRING>)
WITH (kafka_topic='t', format='JSON', partitions=1);
"""
WINDOWED = """
CREATE SOURCE TABLE T (ID STRING PRIMARY KEY, N BIGINT) WITH (kafka_topic='t', key_format='KAFKA', value_format='JSON',
  partitions=1, window_type='TUMBLING', window_size='10 MILLISECONDS');
"""


def planned(text: str, catalog: Catalog | None = None) -> list[Action]:
    planner = Planner(Catalog() if catalog is None else catalog)
    statements = [reading.statement for reading in read_statements(text, {})]
    return [planner.plan(statement) for statement in statements if statement is not None]


def table(text: str) -> tuple[Catalog, SourceInfo]:
    catalog = Catalog()
    planned(text, catalog)
    return catalog, catalog.sources["T"]


def asked(catalog: Catalog, text: str) -> TransientSelect:
    (action,) = planned(text, catalog.copy())
    assert isinstance(action, TransientSelect)
    return action


def view_in(folder: Path, source: SourceInfo) -> SqliteView:
    return open_view(folder, source, Topic(source.topic, TopicSpec(), 7))


def answer(catalog: Catalog, view: View, text: str, order: Order = (), **how: Any) -> list[Event]:
    ask = asked(catalog, text)
    with PullQuery(ask.query, order=order, limit=how.get("limit", ask.limit)).over(view) as found:
        return [row for batch in found.batches for row in batch]


def all_rows(view: View) -> dict[Any, Event]:
    """By the text of the key: NaN does not equal itself."""
    with view.snapshot() as snapshot:
        return {repr(event[1]): event for batch in snapshot.scan(batch=7) for event in batch}


def append(log: Log, source: SourceInfo, events: Sequence[Event]) -> None:
    records = [encode_row(source, *event) for event in events]
    log.append([Append(source.topic, [Record(r.value, r.key, occurred_at=r.time) for r in records])])
