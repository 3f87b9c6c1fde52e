"""The total order over all topics: positions, cuts and parts."""

from __future__ import annotations

from pathlib import Path

from headrace.contracts import Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.storage import total_order
from headrace.log.embedded.storage.read_only import ReadOnlyLog
from tests.unit.log.embedded.data_folder import put, raw


def sequences(log: EmbeddedLog, topics: list[str], after: int, upto: int) -> list[int]:
    return sorted(s for b in log.scan(topics, after, upto) for s in b.rows.column("$sequence").to_pylist())


def test_an_empty_log_has_its_head_at_zero(log: EmbeddedLog) -> None:
    log.create_topic("t")
    assert (log.head(["t"]), log.removed(["t"]), log.cut(["t"], 0, 5)) == (0, 0, 0)
    assert list(log.scan(["t"], 0, 0)) == []


def test_a_cut_ends_at_the_requested_size(log: EmbeddedLog) -> None:
    log.create_topic("a")
    log.create_topic("b")
    for _ in range(5):
        put(log, "a", b"1", b"2")
        put(log, "b", b"3")
    assert log.cut(["a", "b"], 0, 4) == 4
    assert log.cut(["a", "b"], 4, 100) == 15
    assert sequences(log, ["a", "b"], 4, 9) == [5, 6, 7, 8, 9]
    # b's rows are every third of the order.
    assert [log.cut(["b"], 0, n) // 3 for n in (1, 2, 4)] == [1, 2, 4]


def test_merged_extents_that_overlap_do_not_make_a_batch_larger(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(partitions=8, partitioner="round-robin"))
    for _ in range(16):
        for p in range(8):
            log.append([Append("t", raw(*[b"x"] * 5), p)])
    log.maintenance.run()
    after, sizes = 0, []
    while after < log.head(["t"]):
        upto = log.cut(["t"], after, 100)
        sizes.append(len(sequences(log, ["t"], after, upto)))
        after = upto
    assert sum(sizes) == 640
    assert max(sizes) <= 150
    assert len(sizes) <= 12


def test_parts_cover_a_range_once(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t", TopicSpec(partitions=3, partitioner="round-robin"))
    for i in range(30):
        log.append([Append("t", raw(b"x", b"y"), i % 3)])
    view = ReadOnlyLog(folder)
    for after, upto in ((0, 60), (7, 44), (59, 60), (60, 60)):
        pieces = total_order.split(view, ["t"], after, upto, 5)
        found = [s for piece in pieces for b in view.scan(*piece) for s in b.rows.column("$sequence").to_pylist()]
        assert sorted(found) == list(range(after + 1, upto + 1))
    assert len(total_order.split(view, ["t"], 0, 60, 5)) >= 10
    view.close()


def test_removed_rows_in_the_total_order_raise_an_error(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"a", b"b", b"c")
    log.truncate("t", 0, 2)
    assert log.removed(["t"]) == 2
    assert sequences(log, ["t"], 0, 3) == [3]
    log.truncate("t", 0, 3)
    assert (log.removed(["t"]), log.head(["t"])) == (3, 3)
