"""Views that follow a table's topic, on both logs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import ViewLagging
from headrace.plan.sources import SourceInfo
from headrace.record import Record
from headrace.schema import Schema
from headrace.views.contract import View
from headrace.views.materializer import ViewMaterializer, open_view
from headrace.views.materializer_loop import MaterializerLoop
from tests.unit.views.pull_queries import WINDOWED, all_rows, append, table

PATIENCE = timedelta(seconds=30)


@pytest.fixture
def source(log: Log) -> SourceInfo:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    log.create_topic(topic, TopicSpec(partitions=2))
    text = "CREATE TABLE T (ID BIGINT PRIMARY KEY, N BIGINT) WITH (kafka_topic='{}', format='JSON', partitions=2);"
    return table(text.format(topic))[1]


@pytest.fixture
def view(log: Log, source: SourceInfo, tmp_path: Path) -> Iterator[View]:
    with closing(open_view(tmp_path, source, log.topic(source.topic))) as view:
        yield view


def held(view: View) -> dict[int, int]:
    return {key[0]: row[0] for _, key, row in all_rows(view).values() if key and row}


def ends(log: Log, topic: str) -> dict[int, int]:
    return {partition: bound.end for partition, bound in log.bounds(topic).items()}


def test_a_view_follows_its_topic(log: Log, source: SourceInfo, view: View) -> None:
    keeper = ViewMaterializer(log, source, view, at_once=7)
    assert not keeper.step()
    append(log, source, [(5, (i % 10,), (i,)) for i in range(200)])
    append(log, source, [(6, (3,), None)])
    log.append([Append(source.topic, [Record(b"no JSON", b"1"), Record(b'{"N": 1}', None)])])
    while keeper.step():
        pass
    assert held(view) == {i: 190 + i for i in range(10) if i != 3}
    assert keeper.state == view.state()
    assert keeper.state.skipped == 2
    assert keeper.state.reflects(ends(log, source.topic))
    append(log, source, [(7, (3,), (0,))])
    again = ViewMaterializer(log, source, view)
    assert again.step()
    assert not again.step()
    assert held(view)[3] == 0


def test_large_records_are_applied_in_small_batches(log: Log, source: SourceInfo, view: View) -> None:
    append(log, source, [(5, (i,), (i,)) for i in range(40)])
    keeper = ViewMaterializer(log, source, view, bytes_at_once=1)
    while keeper.step():
        pass
    before = keeper.state.version
    append(log, source, [(5, (i,), (-i,)) for i in range(40)])
    while keeper.step():
        pass
    assert keeper.state.version >= before + 20  # one record of each partition at a time
    assert held(view) == {i: -i for i in range(40)}


def test_a_view_that_missed_removed_records_is_rebuilt(log: Log, source: SourceInfo, view: View) -> None:
    append(log, source, [(5, (i,), (i,)) for i in range(20)])
    keeper = ViewMaterializer(log, source, view)
    while keeper.step():
        pass
    before = ends(log, source.topic)
    append(log, source, [(6, (i,), None) for i in range(20)])
    append(log, source, [(7, (1,), (100,))])
    for partition, end in before.items():
        log.truncate(source.topic, partition, end + 1)
    while keeper.step():
        pass
    assert held(view) == {1: 100}
    assert view.state().rebuilt == 1
    assert "were removed before they were seen" in view.state().reason


def test_views_are_materialized_in_the_background(log: Log, source: SourceInfo, view: View) -> None:
    with closing(MaterializerLoop(log)) as keeping:
        keeping.add(ViewMaterializer(log, source, view))
        for i in range(3):
            append(log, source, [(5, (k,), (i,)) for k in range(10)])
            state = keeping.reached("T", ends(log, source.topic), PATIENCE)
            assert held(view) == dict.fromkeys(range(10), i)
            assert view.state() == state
        with pytest.raises(ViewLagging, match="did not reach"):
            keeping.reached("T", {0: 10**6}, timedelta(0))
        assert keeping.view("T") is view
        assert keeping.failure("T") is None
        keeping.remove("T")
        with pytest.raises(ViewLagging, match="is not materialized"):
            keeping.reached("T", {0: 10**6}, timedelta(0))


def test_a_topic_with_a_schema_is_materialized(log: Log, tmp_path: Path) -> None:
    name = f"t-{uuid.uuid4().hex[:12]}"
    topic = log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key, n bigint, tags array<string>")))
    text = (
        "CREATE TABLE T (ID BIGINT PRIMARY KEY, N BIGINT, TAGS ARRAY<STRING>) WITH (kafka_topic='{}', format='JSON');"
    )
    _, source = table(text.format(name).replace("');", "', partitions=1);"))
    rows = {"id": [1, 2, 1], "n": [1, 2, 3], "tags": [["a", None], None, []], "$deleted": [None, None, None]}
    batch = pa.RecordBatch.from_pydict(rows, pa.schema([*topic.schema.arrow, ("$deleted", pa.bool_())]))
    log.append([Append(name, batch)])
    with closing(open_view(tmp_path, source, topic)) as view:
        keeper = ViewMaterializer(log, source, view)
        while keeper.step():
            pass
        assert sorted((key, row) for _, key, row in all_rows(view).values()) == [((1,), (3, [])), ((2,), (2, None))]


def test_windows_are_decoded_from_keys_and_invalid_keys_counted(log: Log, tmp_path: Path) -> None:
    name = f"t-{uuid.uuid4().hex[:12]}"
    topic = log.create_topic(name)
    _, source = table(WINDOWED.replace("kafka_topic='t'", f"kafka_topic='{name}'"))
    append(log, source, [(5, ("a", (0, 10)), (1,)), (15, ("a", (10, 20)), (2,)), (16, ("a", (0, 10)), None)])
    lies = [b"a" + (2**63 - 1).to_bytes(8, "big"), b"short"]
    log.append([Append(name, [Record(b'{"N": 1}', key) for key in lies])])
    with closing(open_view(tmp_path, source, topic)) as view:
        keeper = ViewMaterializer(log, source, view)
        while keeper.step():
            pass
        assert list(all_rows(view).values()) == [(15, ("a", (10, 20)), (2,))]
        assert keeper.state.skipped == 2
