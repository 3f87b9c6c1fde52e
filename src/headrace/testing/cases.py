"""Runs test cases for a script: input records, expected output records, and a report of the differences.

    [{"name": "counts per page",
      "inputs":  [{"source": "clicks", "key": 1, "value": {"page": "/"}, "timestamp": 10}],
      "outputs": [{"source": "counts", "key": "/", "value": {"N": 1}}]}]

A record names a `topic`, or the `source` over it. What an expected record leaves out (key, timestamp, window, headers)
is not compared; its value is, with every field. Outputs are compared in order, topic by topic, and a topic that is
named must hold nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headrace.errors import BadTestCases, HeadraceError, ResultDiffers
from headrace.lang.listing import Listing
from headrace.lang.listing_text import listing_text
from headrace.lang.registry import KSQL, dialect_of
from headrace.testing import json_payloads
from headrace.testing.case_records import case_document, produce, source_of
from headrace.testing.world import World


@dataclass(frozen=True)
class Difference:
    """One difference, and the case that it occurred in."""

    case: str
    error: HeadraceError

    def __str__(self) -> str:
        return f"{self.case}: {self.error}"


@dataclass(frozen=True)
class CaseReport:
    """The number of cases, all differences, and the results of the script's LIST, DESCRIBE, EXPLAIN and PRINT."""

    cases: int
    differences: tuple[Difference, ...] = ()
    answers: tuple[Listing, ...] = ()

    @property
    def failed(self) -> int:
        return len({difference.case for difference in self.differences})

    @property
    def closing(self) -> str:
        return f"{self.cases - self.failed} passed, {self.failed} failed"

    def answered(self) -> list[str]:
        """Each LIST, DESCRIBE, EXPLAIN and PRINT as it was written, followed by its result."""
        return [f"{answer.statement}\n\n{listing_text(answer, dialect_of().reserved)}\n" for answer in self.answers]

    def __str__(self) -> str:
        return "\n".join([*self.answered(), *map(str, self.differences), self.closing])


def run_cases(
    text: str, cases: str | Sequence[Mapping[str, Any]], script: str | None = None, *, language: str = KSQL
) -> CaseReport:
    """Run every case in a new world; `cases` is a list, or the text of a JSON file that contains one.

    `script` is the file's name: errors show it, and RUN SCRIPT resolves paths relative to it. LIST, DESCRIBE and the
    like run before the inputs are sent, so their results in the first case are the same for all.
    """
    named_cases = _read(cases)
    answers: list[tuple[Listing, ...]] = []

    def execute(world: World) -> None:
        world.execute(text, script, language=language)
        answers.append(tuple(world.answers))

    differences = [Difference(name, error) for name, case in named_cases for error in _differences(case, execute)]
    return CaseReport(len(named_cases), tuple(differences), answers[0] if answers else ())


def run_script(text: str, script: str | None = None, *, language: str = KSQL) -> CaseReport:
    """Run a script of statements and ASSERTs, each of which counts as a case; the first failure stops it."""
    world = World()
    try:
        world.execute(text, script, language=language)
    except HeadraceError as error:
        return CaseReport(world.assertions + 1, (Difference(script or "script", error),), tuple(world.answers))
    return CaseReport(world.assertions, answers=tuple(world.answers))


def _read(cases: str | Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        documents = json_payloads.read_json(cases) if isinstance(cases, str) else cases
    except ValueError as error:
        raise BadTestCases(f"the cases are not JSON: {error}", fix="write a list of objects") from error
    if not isinstance(documents, Sequence) or not all(isinstance(case, Mapping) for case in documents):
        raise BadTestCases(
            "the cases are not a list of objects", fix='write [{"name": ..., "inputs": [...], "outputs": [...]}]'
        )
    return [(str(case.get("name", f"case {number}")), case) for number, case in enumerate(documents, 1)]


def _differences(case: Mapping[str, Any], execute: Callable[[World], None]) -> Iterator[HeadraceError]:
    try:
        world = World(case.get("properties"))
        execute(world)
        for record in case.get("inputs", ()):
            produce(world, record)
        yield from _compared(world, case.get("outputs", ()))
    except HeadraceError as error:
        yield error


# -- comparison -----------------------------------------------------------------------------------------------------


def _compared(world: World, expected: Sequence[Mapping[str, Any]]) -> Iterator[ResultDiffers]:
    by_topic: dict[str, list[Mapping[str, Any]]] = {}
    for record in expected:
        by_topic.setdefault(source_of(world, record).topic, []).append(record)
    for topic, expected_records in by_topic.items():
        source = world.declared[topic]
        actual_records = [case_document(entry, source) for entry in world.topics.written(topic)]
        yield from _topic_differences(topic, expected_records, actual_records)


def _topic_differences(
    topic: str, expected_records: Sequence[Mapping[str, Any]], actual_records: Sequence[Mapping[str, Any]]
) -> Iterator[ResultDiffers]:
    for number, (expected, actual) in enumerate(zip(expected_records, actual_records, strict=False)):
        for part in ("key", "value", "timestamp", "window", "headers"):
            if part in expected and not values_match(expected[part], actual[part]):
                yield ResultDiffers(
                    f"expected {_text(expected[part])}, got {_text(actual[part])}", where=f"{topic}[{number}].{part}"
                )
    for number in range(len(actual_records), len(expected_records)):
        yield ResultDiffers(
            f"expected {_text(expected_records[number].get('value'))}, got no record", where=f"{topic}[{number}]"
        )
    for number in range(len(expected_records), len(actual_records)):
        yield ResultDiffers(
            f"got an unexpected record: {_text(actual_records[number]['value'])}", where=f"{topic}[{number}]"
        )


def _text(value: Any) -> str:
    return json_payloads.json_text(value)


def values_match(expected: Any, actual: Any) -> bool:
    """Whether two values are equal: numbers by value, field names of objects case-insensitive."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return len(expected) == len(actual) and all(
            values_match(v, actual.get(k, actual.get(k.upper(), _MISSING))) for k, v in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(values_match, expected, actual))
    if _is_number(expected) and _is_number(actual):
        return Decimal(str(expected)) == Decimal(str(actual))
    return type(expected) is type(actual) and expected == actual


_MISSING = object()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
