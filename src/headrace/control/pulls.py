"""Questions that are answered from what is there: a table from its view, a stream from its topic, by the chain.

No Spark is needed. A table's answer is of one state, which it tells; a stream's goes from its beginning to the end that
was there when it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from headrace.contracts import Log
from headrace.control.allowance import Allowance
from headrace.control.following import Follower
from headrace.control.prepared import Prepared
from headrace.control.tables import Tables
from headrace.plan.answers.rows import Row, Rows
from headrace.plan.catalog import Ask
from headrace.plan.nodes import Kind
from headrace.settings import Settings
from headrace.views.contract import State
from headrace.views.pulling import Pull, finished


@dataclass(frozen=True)
class Pulled:
    """Rows in batches; `state` is that of the table, None of a stream."""

    state: State | None
    batches: Iterator[list[Row]]


class Pulls:
    def __init__(self, log: Log, tables: Tables, settings: Settings) -> None:
        self._log, self._tables, self.settings = log, tables, settings

    @contextmanager
    def answered(self, ask: Ask) -> Iterator[Pulled]:
        """To be read while the context lasts."""
        rows = Rows(ask)
        if ask.query.sources[0].relation.kind is Kind.STREAM:
            allowance = Allowance(self.settings)
            followed = allowance.in_time(self._followed(ask))
            entries = finished(ask.query.sink.relation, followed, ask.order, ask.limit)
            yield Pulled(None, map(rows.of, allowance.counted(entries)))
            return
        with self._asked(Pull(ask.query, order=ask.order, limit=ask.limit), rows) as pulled:
            yield pulled

    def prepared(self, question: Prepared) -> AbstractContextManager[Pulled]:
        """The same of a question that was prepared."""
        return self._asked(question.pull, question.rows)

    @contextmanager
    def _asked(self, pull: Pull, rows: Rows) -> Iterator[Pulled]:
        allowance = Allowance(self.settings)
        with pull.over(self._tables.view(pull.source.name), allowance.in_time) as answer:
            yield Pulled(answer.state, map(rows.of, allowance.counted(answer.batches)))

    def _followed(self, ask: Ask) -> Iterator[list]:
        follower = Follower(self._log, ask.query, from_beginning=True, to_the_end=True)
        while (entries := follower.step()) is not None:
            yield entries
