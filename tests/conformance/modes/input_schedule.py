"""Which cases of a corpus stream, and how their records reach the queries: chosen by a seed."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.conformance.modes import memory
from tests.conformance.modes.memory import Case, Planned

from headrace.plan.relations import System
from headrace.testing.memory_log import INPUT_ORIGIN, MemoryRecord


def sample_cases(cases: Sequence[Case], seed: int, size: int) -> tuple[list[Case], Counter[str]]:
    """So many cases that can stream, and why others that were looked at cannot; all of them if `size` is 0."""
    order, left_out, found = list(cases), Counter[str](), list[Case]()
    random.Random(seed).shuffle(order)
    for case in order:
        if size and len(found) == size:
            break
        reason = _reason(case)
        if reason is None:
            found.append(case)
        else:
            left_out[reason] += 1
    return found, left_out


def _reason(case: Case) -> str | None:
    """Why a case cannot be run as a program."""
    if case["suite"] == "sql":
        return "a script whose ASSERTs stand between its rows"
    try:
        planned = memory.plan(case)
    except Exception as error:
        return f"does not plan: {type(error).__name__}"
    if not planned.accepted:
        return "refused by the planner"
    world, given = planned.world, {record["topic"] for record in case.get("inputs", ())}
    written = Counter(running.query.sink.topic for running in world.running.values())
    stated = {entry.topic for entry in world.topics.entries}
    if (given & (written.keys() | stated)) or (written.keys() & stated):
        return "a topic is written from two sides, and cases have no order among these"
    if any(_is_mixed(set(running.topics), written) for running in world.running.values()):
        return "a query reads what comes from two sides, and cases have no order among these"
    return None


def _is_mixed(topics: set[str], written: Counter[str]) -> bool:
    """Whether what a query reads comes from a query, and from somewhere else too."""
    derived = [topic for topic in topics if topic in written]
    return bool(derived) and (len(topics) > 1 or written[derived[0]] > 1)


@dataclass(frozen=True)
class InputSchedule:
    """How a case's records reach its program."""

    pieces: Sequence[Sequence[MemoryRecord]]
    stop: int | None
    """After which piece the program is stopped and started again."""
    key_groups: int
    partitions: int


def schedule_for(planned: Planned, seed: int) -> InputSchedule:
    """The course that the seed chooses for a case."""
    records = [entry for entry in planned.world.topics.entries if entry.origin == INPUT_ORIGIN]
    if _uses(planned, "BAD_UDF"):  # it counts its calls, and begins anew in every batch and in every key group
        return InputSchedule([records], None, 1, 1)
    chance = random.Random(f"{seed}/{planned.case['id']}")
    places = range(1, len(records))
    cuts = sorted(chance.sample(places, min(len(places), chance.choice((0, 1, 1, 2, 3)))))
    pieces = [records[start:end] for start, end in pairwise([0, *cuts, len(records)])]
    stop = chance.randrange(len(cuts)) if cuts and chance.random() < 0.6 else None
    # In a case's eyes there is one partition; who asks for a record's place must see that one.
    partitions = 1 if _reads_positions(planned) else chance.choice((1, 1, 3))
    return InputSchedule(pieces, stop, chance.choice((1, 2, 3)), partitions)


def _reads_positions(planned: Planned) -> bool:
    sources = (source for running in planned.world.running.values() for source in running.query.sources)
    return any(column.kind in (System.PARTITION, System.OFFSET) for source in sources for column in source.system)


def _uses(planned: Planned, names: str) -> bool:
    return re.search(rf"\b({names})\b", " ".join(planned.case["statements"]), re.IGNORECASE) is not None
