"""A case of the KSQL corpus in memory: the canonical chain, fed as ksqlDB's own test runner feeds its topologies.

`run` gives what the comparer reads: how many statements were accepted, what was refused, what failed on the way, and
every record that statements and queries wrote.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import AssertFailed, HeadraceError, StatementError
from headrace.plan.catalog import Catalog
from headrace.plan.functions.signature import type_text
from headrace.plan.relations import Kind
from headrace.plan.sources import SourceInfo
from headrace.testing.case_records import case_document, produce
from headrace.testing.world import World

Case = Mapping[str, Any]
Outcome = dict[str, Any]

PARTITIONS = 4
"""Of a topic that no case lists."""


@dataclass
class Planned:
    """A case whose statements have been planned: in its world, all that was accepted; in its outcome, what was not."""

    case: Case
    world: World
    outcome: Outcome
    accepted: bool = False


def run(case: Case) -> Outcome:
    """Run one case; whatever goes wrong is part of the outcome, never of the run."""
    planned = plan(case)
    if planned.accepted:
        conclude(planned, lambda: (give(planned), planned.world.drain()))
    return planned.outcome


def plan(case: Case) -> Planned:
    """Execute the statements."""
    planned = Planned(case, World(case.get("properties"), live=case["suite"] == "sql"), _nothing(case))
    make_topics(planned.world.catalog, case)
    planned.accepted = _execute(planned.world, case, planned.outcome)
    return planned


def give(planned: Planned) -> None:
    """Write the case's inputs into its world."""
    for record in planned.case.get("inputs", ()):
        if record["topic"] in planned.world.declared:
            produce(planned.world, record)


def conclude(planned: Planned, process: Callable[[], Any]) -> None:
    """Note what processing wrote, or how it failed."""
    world, outcome = planned.world, planned.outcome
    try:
        process()
        outcome["topics"] = _topics(world)
        outcome["sources"] = [_described(source) for source in world.catalog.sources.values()]
    except Exception as error:
        outcome["runtime_error"] = _failure(error, 0)


def crashed(case: Case, error: Exception) -> Outcome:
    """The outcome of a case that broke its runner."""
    return _nothing(case) | {"error": _failure(error, 0)}


def _nothing(case: Case) -> Outcome:
    outcome: Outcome = {"id": case["id"], "statements": 0, "error": None, "runtime_error": None, "topics": {}}
    return outcome | ({"asserts_passed": 0, "failed_assert": None} if case["suite"] == "sql" else {})


def make_topics(catalog: Catalog, case: Case) -> None:
    """The topics that are there before the first statement."""
    for record in case.get("inputs", ()):
        catalog.partitions[record["topic"]] = PARTITIONS
    for topic in case.get("topics") or ():
        catalog.partitions[topic["name"]] = topic.get("partitions", 1)


def _execute(world: World, case: Case, outcome: Outcome) -> bool:
    """All statements up to the first refused one; True if there is none."""
    for number, text in enumerate(case["statements"]):
        try:
            world.execute(text)
        except Exception as error:
            held_not = isinstance(error, AssertFailed) and "failed_assert" in outcome
            outcome["failed_assert" if held_not else "error"] = _failure(error, number)
            return False
        outcome["statements"] += 1
        if "asserts_passed" in outcome and re.match(r"\s*ASSERT\b", text, re.IGNORECASE):
            outcome["asserts_passed"] += 1
    return True


def _topics(world: World) -> dict[str, list[dict[str, Any]]]:
    return {
        topic: [case_document(entry, world.declared[topic]) for entry in world.topics.written(topic)]
        for topic in world.topics
        if topic in world.declared
    }


def _failure(error: Exception, statement: int) -> dict[str, Any]:
    failure: dict[str, Any] = {"statement": statement, "code": "internal", "message": _crash(error)}
    if isinstance(error, HeadraceError):
        failure |= {"code": error.code, "message": error.what}
    if isinstance(error, StatementError) and error.span is not None:
        failure |= {"line": error.span.line, "column": error.span.column}
    return failure


def _crash(error: Exception) -> str:
    """What broke and where, for whoever mends it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "nowhere"
    return f"{type(error).__name__} in {place}: {error}"


def _described(source: SourceInfo) -> dict[str, Any]:
    window = source.relation.window
    size = window.size if window else None
    return {
        "name": source.name,
        "type": source.kind.value,
        "schema": _schema(source),
        "valueFormat": source.value_format.name,
        "keyFormat": {
            "format": source.key_format.name,
            "windowType": window.kind.value.upper() if window else None,
            "windowSize": round(size.total_seconds() * 1000) if size else None,
        },
    }


def _schema(source: SourceInfo) -> str:
    mark = " PRIMARY KEY" if source.kind is Kind.TABLE else " KEY"
    key = [f"`{column.name}` {type_text(column.type)}{mark}" for column in source.relation.key]
    return ", ".join(key + [f"`{column.name}` {type_text(column.type)}" for column in source.relation.value])
