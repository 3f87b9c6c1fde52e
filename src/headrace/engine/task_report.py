"""The report of a task about its part of a batch, sent to the driver; and its dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import orjson

from headrace.plan.chain.fail_on_error import fail_if_configured
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Problem


@dataclass
class TaskReport:
    """The report on a key group, or on a range that was read."""

    key_group: int
    records: int = 0
    written: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    deadline: int | None = None
    time: int | None = None
    """The latest time among the records."""
    entries: int = 0
    """The number of entries in the key group's state."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """Windows that have rows and are not closed yet: see `native.watermark`. `DeadlineTracker` clears them."""
    follows: bool = False
    """Whether another batch follows at once, even without input: it emits the windows that this one has closed."""

    def dead_letter(self, problem: Problem, query: Query) -> RawRecord:
        """Creates and counts a dead letter: the unusable record, with reason and place. Strict queries fail instead."""
        fail_if_configured(problem, query)
        self.problems[problem.code] = self.problems.get(problem.code, 0) + 1
        why = {"code": problem.code, "reason": problem.reason, "where": problem.where, "query": query.id}
        headers = tuple((name, text.encode()) for name, text in why.items())
        return RawRecord(_value_bytes(problem.key), _value_bytes(problem.row), problem.time or 0, headers)

    def packed(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(**orjson.loads(data))


OnTaskReports = Callable[[int, list[TaskReport]], None]
"""Called with the batch's number and its tasks' reports."""


def _value_bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else repr(value).encode()
