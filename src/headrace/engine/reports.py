"""What became of a part of a batch, told by the task that ran it to the driver; and its dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import orjson

from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import Raw
from headrace.plan.chain.strict import check
from headrace.plan.nodes import Query


@dataclass
class Report:
    """Of a page, or of a range that was read."""

    page: int
    records: int = 0
    written: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    deadline: int | None = None
    time: int | None = None
    """The latest time among the records."""
    entries: int = 0
    """How much the page's state holds."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """Windows that have rows and have not closed: see `native.moments`. What goes on to others has none."""
    follows: bool = False
    """Another batch comes at once, whatever there is to read: it gives out what this one has closed."""

    def letter(self, problem: Problem, query: Query) -> Raw:
        """A dead letter: what could not be used, with why and where. It is counted. A strict query ends instead."""
        check(problem, query)
        self.problems[problem.code] = self.problems.get(problem.code, 0) + 1
        why = {"code": problem.code, "reason": problem.reason, "where": problem.where, "query": query.id}
        headers = tuple((name, text.encode()) for name, text in why.items())
        return Raw(_shown(problem.key), _shown(problem.row), problem.time or 0, headers)

    def packed(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(**orjson.loads(data))


OnReport = Callable[[int, list[Report]], None]
"""The batch's number, and what its tasks say."""


def _shown(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else repr(value).encode()
