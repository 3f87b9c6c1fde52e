"""Results as columns: read back, they are the rows that raw payloads give."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.contracts import SYSTEM_COLUMNS, Batch, Topic, TopicSpec
from headrace.control.statements.sink_topic import sink_topic_spec
from headrace.engine.record import result_writer
from headrace.engine.record.result_writer import ResultWriter, read_written
from headrace.engine.record.results import Results
from headrace.engine.record.sink_columns import sink_columns
from headrace.errors import SchemaMismatch
from headrace.log.stored_rows import conform_rows, prepare_rows
from headrace.plan.analysis.record_layout import record_layouts
from headrace.plan.chain.records import Decoder, RawRecord
from headrace.plan.nodes import Query, Sink, Source
from headrace.plan.steps import Problem
from headrace.schema import Schema
from headrace.settings import Settings
from headrace.testing.world import World

TYPED = Settings.of(query_sink_topics="typed")
COLUMNS = """
id BIGINT KEY, page STRING, n INT, c DOUBLE, price DECIMAL(10,2), ok BOOLEAN, raw BYTES, tags ARRAY<STRING>,
m MAP<STRING, INT>, s STRUCT<a INT, b ARRAY<BIGINT>>, day DATE, clock TIME, at TIMESTAMP
"""
FULL = (
    *("/ä\x00", -7, 0.5, Decimal("1.50"), True, b"\x00\xff", ["x", None]),
    *({"k": 1, "l": None}, {"A": 1, "B": [2, None]}, -3, 86_399_999, 1_700_000_000_123),
)
ENTRIES = [
    (10, (1,), FULL),
    (11, (2,), (None,) * len(FULL)),
    (12, (3,), None),
    (9, None, FULL),
    (13, (1,), ("", 0, -0.0, Decimal("0.00"), False, b"", [], {}, {"A": None, "B": []}, 0, 0, 0)),
]
HEADERS = [(), (("a", b"1"), ("b", None)), (), (), (("a", b"\xff"),)]


def sink_of(columns: str = COLUMNS, select: str = "*", more: str = "") -> Sink:
    world = World(live=False)
    world.execute(f"CREATE STREAM c ({columns}) WITH (kafka_topic='c', format='JSON', partitions=1);")
    world.execute(f"CREATE STREAM o {more} AS SELECT {select} FROM c;")
    (running,) = world.running.values()
    return running.query.sink


def typed(sink: Sink, schema: str | None = None) -> Topic:
    spec = sink_topic_spec(sink, TYPED) if schema is None else TopicSpec(schema=Schema.parse(schema))
    return Topic(sink.topic, spec, 0)


def raw(sink: Sink) -> Topic:
    return Topic(sink.topic, TopicSpec(), 0)


def written(sink: Sink, topic: Topic, results: Results, problems: list[Problem] | None = None) -> Batch:
    """What reading the topic gives."""
    told = [] if problems is None else problems
    parts = ResultWriter(sink, sink_columns(sink, topic)).write(results, told.append)
    rows = [prepare_rows(read_written(payload, topic), topic, now=0) for _, payload in parts]
    assert [count for count, _ in parts] == [len(piece) for piece in rows]
    names = [*topic.schema.names, *SYSTEM_COLUMNS]
    pieces = [pa.RecordBatch.from_arrays(_stored(piece, topic), names) for piece in rows]
    table = pa.Table.from_batches(pieces).combine_chunks()
    return Batch(topic.name, 0, table.to_batches()[0], len(table))


def _stored(rows: pa.RecordBatch, topic: Topic) -> list[pa.Array]:
    places = pa.array(range(len(rows)), pa.int64())
    return [*conform_rows(rows, topic.schema), places, places]


def read(sink: Sink, topic: Topic, batch: Batch) -> list[Any]:
    """What a query over the topic sees, with headers."""
    source = Source(sink.name, sink.topic, sink.relation, sink.key_format, sink.value_format)
    layout, *_ = record_layouts(Query("", Sink(source, *list(vars(sink).values())[1:])), [topic])
    records: list[RawRecord] = layout.records(pa.Table.from_batches([layout.pack(batch)]))
    decoder = Decoder(source, layout.names)
    return [(decoder.decode(record), record.headers) for record in records]


def test_columns_are_read_back_as_the_rows_of_raw_payloads() -> None:
    sink, results = sink_of(), Results(ENTRIES, HEADERS)
    topics = raw(sink), typed(sink)
    assert not topics[1].schema.is_raw
    from_bytes, from_columns = (read(sink, topic, written(sink, topic, results)) for topic in topics)
    assert repr(from_columns) == repr(from_bytes)
    assert [event for event, _ in from_columns] == ENTRIES


def test_a_result_that_cannot_be_written_is_reported_and_the_others_are_written() -> None:
    sink = sink_of("id BIGINT KEY, page STRING")
    entries = [(n, (n,), (f"/{n}",)) for n in range(40)]
    entries[7], entries[8], entries[30] = (7, (7,), ("\ud800",)), (-8, (8,), ("/",)), (30, (1 << 70,), ("/",))
    problems: list[Problem] = []
    batch = written(sink, typed(sink), Results(entries), problems)
    assert [(problem.code, problem.time) for problem in problems] == [
        ("not-written", 7),
        ("bad-time", -8),
        ("not-written", 30),
    ]
    assert [event for (event, _) in read(sink, typed(sink), batch)] == [
        entry for n, entry in enumerate(entries) if n not in (7, 8, 30)
    ]


@pytest.mark.parametrize("topic_of", [raw, typed])
def test_many_rows_are_packed_in_pieces(topic_of: Callable[[Sink], Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_writer, "MAX_ROWS_PER_PAYLOAD", 3)
    sink = sink_of("id BIGINT KEY, page STRING")
    topic, entries = topic_of(sink), [(n, (n,), (f"/{n}",)) for n in range(8)]
    parts = ResultWriter(sink, sink_columns(sink, topic)).write(Results(entries), lambda problem: None)
    assert [count for count, _ in parts] == [3, 3, 2]
    assert [event for event, _ in read(sink, topic, written(sink, topic, Results(entries)))] == entries


def test_a_column_may_be_the_timestamp() -> None:
    sink = sink_of("id BIGINT KEY, at BIGINT", more="WITH (timestamp='at')")
    problems: list[Problem] = []
    batch = written(sink, typed(sink), Results([(1, (1,), (77,)), (2, (1,), (None,)), (3, (1,), None)]), problems)
    assert batch.rows.column("$timestamp").to_pylist() == [77, 3]
    assert [problem.code for problem in problems] == ["bad-time"]


def test_a_topic_may_have_more_columns_and_names_in_another_case() -> None:
    sink = sink_of("id INT KEY, s STRUCT<a INT, b ARRAY<STRUCT<c STRING>>>")
    topic = typed(sink, "more string default 'x', id bigint key, s struct<a int,b array<struct<c string>>>")
    batch = written(sink, topic, Results([(1, (5,), ({"A": 1, "B": [{"C": "y"}]},))]))
    assert batch.rows.select(["more", "id", "s"]).to_pylist() == [
        {"more": "x", "id": 5, "s": {"a": 1, "b": [{"c": "y"}]}}
    ]


@pytest.mark.parametrize("schema", ["id bigint key", "id int key, page string", "id bigint key, page bigint"])
def test_an_incompatible_topic_schema_is_refused(schema: str) -> None:
    sink = sink_of("id BIGINT KEY, page STRING")
    with pytest.raises(SchemaMismatch):
        sink_columns(sink, typed(sink, schema))


def windowed(columns: str | None = None, window: str = "TUMBLING (SIZE 5 SECONDS)") -> tuple[Sink, Topic]:
    world = World(live=False)
    world.execute("CREATE STREAM c (id INT KEY, page STRING) WITH (kafka_topic='c', format='JSON', partitions=1);")
    world.execute(f"CREATE TABLE o AS SELECT page, COUNT(*) AS n FROM c WINDOW {window} GROUP BY page;")
    (running,) = world.running.values()
    return running.query.sink, typed(running.query.sink, columns)


@pytest.mark.parametrize("window", ["TUMBLING (SIZE 5 SECONDS)", "SESSION (5 SECONDS)"])
def test_windows_are_read_back_as_the_rows_of_raw_payloads(window: str) -> None:
    sink, topic = windowed(window=window)
    entries = [(3, ("/", (0, 5000)), (2,)), (6, ("/", (5000, 10_000)), None), (7, ("", (1000, 6000)), (None,))]
    from_bytes, from_columns = (read(sink, one, written(sink, one, Results(entries))) for one in (raw(sink), topic))
    assert from_columns == from_bytes
    assert [event for event, _ in from_columns] == entries


def test_window_bounds_are_columns() -> None:
    sink, topic = windowed("page string key, windowstart bigint key, n bigint")
    batch = written(sink, topic, Results([(3, ("/", (0, 5000)), (2,)), (6, ("/", (5000, 10_000)), None)]))
    assert batch.rows.select(["page", "windowstart", "n", "$deleted"]).to_pylist() == [
        {"page": "/", "windowstart": 0, "n": 2, "$deleted": None},
        {"page": "/", "windowstart": 5000, "n": None, "$deleted": True},
    ]
    with pytest.raises(SchemaMismatch, match="WINDOWSTART"):
        sink_columns(*windowed("page string key, n bigint"))
    with pytest.raises(SchemaMismatch, match="WINDOWEND"):
        sink_columns(*windowed("page string key, n bigint, windowstart bigint", "SESSION (5 SECONDS)"))


@pytest.mark.parametrize(
    ("sink", "settings"),
    [
        (sink_of("id BIGINT KEY, days ARRAY<DATE>"), TYPED),
        (sink_of("id BIGINT KEY, page STRING, `page` STRING"), TYPED),
        (sink_of("id BIGINT KEY, page STRING"), Settings.of(query_sink_topics="typed", storage_log="kafka")),
        (sink_of("id BIGINT KEY, page STRING"), Settings()),
    ],
    ids=["times inside", "names that differ in case", "on Kafka", "by default"],
)
def test_sinks_that_stay_raw(sink: Sink, settings: Settings) -> None:
    assert sink_topic_spec(sink, settings).schema.is_raw


def test_a_typed_sink_has_the_columns_of_the_result() -> None:
    sink = sink_of("id BIGINT KEY, page STRING", more="WITH (partitions=3)")
    spec = sink_topic_spec(sink, TYPED)
    assert (str(spec.schema), spec.partitions) == ("ID bigint key, PAGE string", 3)
    sessions = windowed(window="SESSION (5 SECONDS)")[1]
    assert str(sessions.schema) == "PAGE string key, WINDOWSTART bigint key, WINDOWEND bigint key, N bigint"
