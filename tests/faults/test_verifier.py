"""The verifier itself: each kind of planted violation is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.contracts import Append, TopicPartition
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.faults.log.ack_log import AckEntry
from tests.faults.log.campaign import Result
from tests.faults.log.embedded_scenario import create_topics
from tests.faults.log.spark_scenario import OUTPUTS, check_outputs
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, TORN, Findings
from tests.faults.log.verify_embedded import check_facts
from tests.faults.log.worker import SETTINGS
from tests.faults.log.worker_pool import RANDOM, Kill
from tests.faults.log.workloads import rows_of

Plant = Callable[[EmbeddedLog, list[AckEntry]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def facts(folder: Path) -> list[AckEntry]:
    """A small log on which every kind of worker has worked, and what they were told."""
    told: list[AckEntry] = []
    with EmbeddedLog(folder, SETTINGS) as log:
        create_topics(log)
        for number in range(3):
            value = f"producer-{number}"
            (place,) = append(log, "single", Record(value.encode(), key=b"k1"))
            told.append(["ack", "single", str(place.partition), str(place.offset), value])
        both = rows_of("bulk-0", 60, 400)
        log.append([Append("bulk-a", from_records(both[:30])), Append("bulk-b", from_records(both[30:]))])
        told.append(["whole", "bulk-0"])
        writer = log.writer("exact")
        for number in range(3):
            exact, keyed = rows_of(str(number), 2, 5), [Record(b"%d" % number, key=b"k%d" % number)]
            writer.append(number, [Append("exact", from_records(exact)), Append("keyed", from_records(keyed))])
            told.append(["number", str(number)])
    return told


def append(log: EmbeddedLog, topic: str, *records: Record) -> list:
    return log.append([Append(topic, from_records(records))])


def execute(log: EmbeddedLog, sql: str) -> None:
    with sqlite3.connect(log.store.path) as db:
        db.execute(sql)


def kinds(folder: Path, facts: list[AckEntry]) -> set[str]:
    return {violation.kind for violation in check_facts(folder, facts).violations}


def delete_an_extent(topic: str) -> Plant:
    of_topic = f"topic = (SELECT id FROM topics WHERE name = '{topic}')"
    sql = f"DELETE FROM extents WHERE id = (SELECT max(id) FROM extents WHERE {of_topic})"
    return lambda log, _: execute(log, sql)


def remove_a_file(log: EmbeddedLog, _: list[AckEntry]) -> None:
    next((log.folder / "extents").iterdir()).unlink()


def repeat(log: EmbeddedLog, _: list[AckEntry]) -> None:
    append(log, "single", Record(b"producer-0"))


PLANTS: dict[str, tuple[Plant, str]] = {
    "an acknowledged record that never was there": (
        lambda _, facts: facts.append(["ack", "single", "0", "99", "producer-99"]),
        LOST,
    ),
    "an acknowledged record that is gone": (delete_an_extent("single"), LOST),
    "a record that is there twice": (repeat, DUPLICATE),
    "a file that is gone": (remove_a_file, DAMAGE),
    "half an append": (delete_an_extent("bulk-b"), TORN),
    "an acknowledged append that is gone": (lambda _, facts: facts.append(["whole", "bulk-1"]), LOST),
    "a writer's number that is gone": (delete_an_extent("exact"), LOST),
    "a writer's number that the log forgot": (lambda _, facts: facts.append(["number", "3"]), LOST),
    "the latest row of a key": (delete_an_extent("keyed"), LOST),
    "a row that a consumer saw otherwise": (
        lambda _, facts: facts.append(["seen", "single", "0", "0", "1", "12345"]),
        DAMAGE,
    ),
    "bytes that do not add up": (lambda log, _: execute(log, "UPDATE partitions SET bytes = bytes + 1"), DAMAGE),
    "a message that came again": (
        lambda _, facts: facts.extend([["done", "10", "0", "0"], ["taken", "11", "0", "0"]]),
        DUPLICATE,
    ),
}


def test_a_correct_log_has_no_violations(folder: Path, facts: list[AckEntry]) -> None:
    found = check_facts(folder, facts)
    assert (found.violations, found.facts) == ([], 7)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_found(folder: Path, facts: list[AckEntry], plant: str) -> None:
    make, kind = PLANTS[plant]
    with EmbeddedLog(folder, SETTINGS) as log:
        make(log, facts)
    assert kind in kinds(folder, facts)


def test_a_committed_offset_beyond_the_delivered_rows_is_found(folder: Path, facts: list[AckEntry]) -> None:
    with EmbeddedLog(folder, SETTINGS) as log:
        (partition,) = (p for p, bounds in log.bounds("single").items() if bounds.end)
        log.reset_group("readers", {TopicPartition("single", partition): 2})
    assert kinds(folder, facts) == {LOST}


@pytest.mark.parametrize(
    ("copied", "counts", "kind"),
    [
        ((b"a", b"b"), (1, 2), None),
        ((b"a",), (1, 2), LOST),
        ((b"a", b"b", b"b"), (1, 2), DUPLICATE),
        ((b"a", b"b"), (1,), LOST),
        ((b"a", b"b"), (1, 1, 2), DUPLICATE),
    ],
    ids=["good", "row not copied", "row copied twice", "count too low", "count written twice"],
)
def test_spark_results_are_compared_with_the_input(
    folder: Path, copied: tuple[bytes, ...], counts: tuple[int, ...], kind: str | None
) -> None:
    found = Findings()
    with EmbeddedLog(folder, SETTINGS) as log:
        create_topics(log, {"single": OUTPUTS["copied"], **OUTPUTS})
        append(log, "single", Record(b"a", key=b"k"), Record(b"b", key=b"k"))
        append(log, "copied", *(Record(value, key=b"k") for value in copied))
        append(log, "counted", *(Record(b"%d" % count, key=b"k") for count in counts))
        check_outputs(log, found)
    assert [violation.kind for violation in found.violations] == ([] if kind is None else [kind])


@pytest.mark.parametrize(("operation", "good"), [("send", True), ("", False)], ids=["inside", "outside"])
def test_a_run_without_an_effective_kill_fails(operation: str, good: bool) -> None:
    assert Result("log", [Kill("producer", RANDOM, operation)], Findings(), 1.0).good is good
