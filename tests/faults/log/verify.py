"""Holds a log against what workers were told about it.

Promises: what was acknowledged is there, at the place that was named; nothing is there twice; what was appended
together is there together; a named writer's numbers are all there, once; a group was never beyond what its members
saw; an acknowledged message of a queue never comes again.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tests.faults.log.ack_log import AckEntry
from tests.faults.log.workloads import KEYS

from headrace.contracts import Bounds, Log, TopicPartition

Rows = dict[tuple[int, int], bytes]  # partition and offset to value
Told = Mapping[str, list[AckEntry]]

LOST, DUPLICATE, TORN, DAMAGE = "lost", "duplicate", "torn", "damage"
ONCE = ("single", "jobs", "brief", "bulk-a", "bulk-b", "exact")  # topics in which every value is another


@dataclass(frozen=True)
class Violation:
    """A promise that was broken."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@dataclass
class Findings:
    """What a verification found, and how much it looked at."""

    violations: list[Violation] = field(default_factory=list)
    rows: int = 0
    facts: int = 0

    def add(self, kind: str, what: str) -> None:
        self.violations.append(Violation(kind, what))

    def join(self, other: Findings) -> None:
        self.violations += other.violations
        self.rows += other.rows
        self.facts += other.facts

    def count(self, kind: str) -> int:
        return sum(violation.kind == kind for violation in self.violations)


def by_kind(facts: Iterable[AckEntry]) -> Told:
    """Facts by their kind, without it."""
    found: dict[str, list[AckEntry]] = defaultdict(list)
    for kind, *fields in facts:
        found[kind].append(fields)
    return found


def read_rows(log: Log, topic: str) -> Rows:
    """The values of a topic by place."""
    rows: Rows = {}
    for partition, (offset, end) in log.bounds(topic).items():
        while offset < end:
            batch = log.read(topic, partition, offset)
            offsets, values = (batch.rows.column(name).to_pylist() for name in ("$offset", "value"))
            rows.update(((partition, at), value) for at, value in zip(offsets, values, strict=True))
            offset = batch.next_offset
    return rows


def check_log(log: Log, told: Told) -> Findings:
    """All promises that both logs make."""
    found = Findings(facts=sum(map(len, told.values())))
    topics = {topic.name: read_rows(log, topic.name) for topic in log.topics() if not topic.name.startswith("__")}
    found.rows = sum(map(len, topics.values()))
    check_acknowledged(topics, {name: log.bounds(name) for name in topics}, told["ack"], found)
    check_unique(topics, found)
    check_together([*topics["bulk-a"].values(), *topics["bulk-b"].values()], told["whole"], found)
    check_numbers(topics["exact"].values(), topics["keyed"].values(), told["number"], found)
    check_group(topics, log.group("readers").offsets if "readers" in log.groups() else {}, told, found)
    return found


def check_acknowledged(
    topics: Mapping[str, Rows], bounds: Mapping[str, Mapping[int, Bounds]], acks: Sequence[AckEntry], found: Findings
) -> None:
    for topic, partition, offset, value in acks:
        place = (int(partition), int(offset))
        removed = topic == "brief" and place[1] < bounds[topic][place[0]].start  # by retention, as it should be
        if not removed and topics[topic].get(place) != value.encode():
            found.add(LOST, f"{value} was acknowledged at {topic}/{partition}, offset {offset}")


def check_unique(topics: Mapping[str, Rows], found: Findings) -> None:
    for name in ONCE:
        for value, times in Counter(topics.get(name, {}).values()).items():
            if times > 1:
                found.add(DUPLICATE, f"{value[:40]!r} is {times} times in {name}")


def check_together(values: Iterable[bytes], whole: Sequence[AckEntry], found: Findings) -> set[str]:
    """Appends of `name/row/rows/...`: each whole or not there at all; those that were acknowledged are there."""
    sizes: dict[str, int] = {}
    held: Counter[str] = Counter()
    for name, _, size, _ in (value.decode().split("/") for value in set(values)):
        sizes[name] = int(size)
        held[name] += 1
    for name, count in held.items():
        if count != sizes[name]:
            found.add(TORN, f"of append {name} there are {count} rows of {sizes[name]}")
    for (name,) in whole:
        if name not in held:
            found.add(LOST, f"append {name} was acknowledged")
    return set(held)


def check_numbers(exact: Iterable[bytes], keyed: Iterable[bytes], told: Sequence[AckEntry], found: Findings) -> None:
    """A writer's numbers are dense from 0; of a compacted topic the latest number of each key is there."""
    held = sorted(int(name) for name in check_together(exact, told, found))
    if held != list(range(len(held))):
        missing = sorted(set(range(held[-1])) - set(held))
        found.add(LOST, f"of the writer's numbers {missing[:10]} are missing, up to {held[-1]}")
    latest: dict[int, int] = {}
    for number in map(int, keyed):
        latest[number % KEYS] = max(latest.get(number % KEYS, 0), number)
    for number in held[-KEYS:]:
        if latest.get(number % KEYS) != number:
            found.add(LOST, f"the latest of key k{number % KEYS} is {latest.get(number % KEYS)}, not {number}")


def check_group(
    topics: Mapping[str, Rows], committed: Mapping[TopicPartition, int], told: Told, found: Findings
) -> None:
    """What a group committed, its members saw, all of it and as it still is; a commit is never taken back."""
    seen: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for topic, number, start, end, checksum in told["seen"]:
        place = TopicPartition(topic, int(number))
        seen[place].append((int(start), int(end)))
        values = (topics[topic].get((place.partition, at)) for at in range(int(start), int(end)))
        if zlib.crc32(b"\n".join(value for value in values if value is not None)) != int(checksum):
            found.add(DAMAGE, f"{place}, offsets {start} to {end}: a consumer saw other rows")
    for place, offset in committed.items():
        if skipped := _unseen(topics[place.topic], place.partition, offset, seen[place]):
            found.add(LOST, f"group is at {offset} of {place}, but {len(skipped)} rows from {skipped[0]} were not seen")
    for topic, number, offset in told["committed"]:
        if committed.get(TopicPartition(topic, int(number)), -1) < int(offset):
            found.add(LOST, f"commit of offset {offset} of {topic}/{number}")


def _unseen(rows: Rows, partition: int, offset: int, seen: Sequence[tuple[int, int]]) -> list[int]:
    covered = np.zeros(offset, bool)
    for start, end in seen:
        covered[start:end] = True
    return [int(at) for at in np.flatnonzero(~covered) if (partition, int(at)) in rows]
