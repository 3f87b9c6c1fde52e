"""Random lives of a view beside a plain dict.

Changes, records that lie, restarts at any moment, several who keep it at once, and topics that lose their beginning.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.contracts import Ack, Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.row_codec import encode_row
from headrace.record import Record
from headrace.views.contract import View
from headrace.views.materializer import ViewMaterializer, open_view
from tests.unit.views.pull_queries import all_rows, answer, table

CATALOG, SOURCE = table(
    "CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, N BIGINT, S STRING) "
    "WITH (kafka_topic='t', format='JSON', partitions=2);"
)
LIE = b"{ no JSON"
_changes = st.tuples(st.integers(0, 4), st.none() | st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", None])))
_records = st.lists(_changes | st.just((0, LIE)), min_size=1, max_size=8)
Model = dict[int, Any]


class Views(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.stack = ExitStack()
        self.log = self.stack.enter_context(EmbeddedLog(self.folder / "log"))
        self.topic = self.log.create_topic("t", TopicSpec(partitions=2))
        self.records: dict[int, list[Any]] = {0: [], 1: []}
        self.starts = {0: 0, 1: 0}
        self.begun: dict[int, int] = {}
        self.rebuilt = 0
        self.keepers: list[ViewMaterializer] = []
        self.crash_and_restart()

    def opened(self) -> View:
        return open_view(self.folder, SOURCE, self.topic)

    @rule(records=_records)
    def append(self, records: list[Any]) -> None:
        for key, row in records:
            raw = encode_row(SOURCE, 5, (key,), None if row == LIE else row)
            value = LIE if row == LIE else raw.value
            (done,) = self.log.append([Append("t", [Record(value, raw.key, occurred_at=5)])], ack=Ack.WRITTEN)
            self.records[done.partition].append((key, row))

    @rule(which=st.integers(0, 3))
    def step(self, which: int) -> None:
        """Any of the materializers of the view, also one that takes itself for the only one."""
        self.keepers[which % len(self.keepers)].step()
        self.look()

    @rule()
    def crash_and_restart(self) -> None:
        """Whatever was not applied is forgotten; the one before may still be about."""
        view = self.opened()
        self.stack.callback(view.close)
        self.keepers = [*self.keepers[-2:], ViewMaterializer(self.log, SOURCE, view, at_once=3)]

    @rule(column=st.sampled_from(["N", "S"]))
    def index(self, column: str) -> None:
        self.view.create_index([column])

    @precondition(lambda self: any(self.records.values()))
    @rule(partition=st.integers(0, 1), share=st.floats(0, 1))
    def remove_oldest_records(self, partition: int, share: float) -> None:
        before = int(share * len(self.records[partition]))
        if before > self.starts[partition]:
            self.log.truncate("t", partition, before)
            self.starts[partition] = self.log.bounds("t")[partition].start

    @property
    def view(self) -> Any:
        return self.keepers[-1].view

    def look(self) -> None:
        """From where the rows count that the view has."""
        state = self.view.state()
        if state.rebuilt != self.rebuilt:
            self.rebuilt, self.begun = state.rebuilt, {}
        for partition in state.position:
            self.begun.setdefault(partition, self.starts[partition])

    @invariant()
    def the_view_agrees_with_its_position(self) -> None:
        state = self.view.state()
        model: Model = {}
        for partition, offset in state.position.items():
            _fold(model, self.records[partition][self.begun[partition] : offset])
        found = all_rows(self.view)
        assert {key[0]: row for _, key, row in found.values() if key} == model
        asked = answer(CATALOG, self.view, "SELECT ID, N FROM T WHERE N > 4 AND ID >= 2;")
        assert {key[0]: row for _, key, row in asked if key} == {
            key: row[:1] for key, row in model.items() if row[0] > 4 and key >= 2
        }

    def teardown(self) -> None:
        while self.keepers[-1].step():
            self.look()
        self.look()
        assert self.view.state().position == {p: len(r) for p, r in self.records.items() if r}
        self.the_view_agrees_with_its_position()
        self.stack.close()
        shutil.rmtree(self.folder)


def _fold(model: Model, records: list[Any]) -> None:
    for key, row in records:
        if row is None:
            model.pop(key, None)
        elif row != LIE:
            model[key] = row


TestViews = Views.TestCase
TestViews.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)
