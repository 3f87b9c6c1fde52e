"""The journal over a log whose appends fail at random: it holds exactly the acknowledged entries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.clock import SystemClock
from headrace.contracts import Append, Appended
from headrace.control.statements.journal import Journal, read_journal
from headrace.errors import LogBusy
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.commit.writers import EmbeddedWriter

FINE, NOT_DONE, DONE = "fine", "not done", "done"


class Failing(EmbeddedLog):
    """Its writers do what the next word says, and say that they have failed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.appends: list[str] = []
        self.opens: list[str] = []

    def writer(self, name: str) -> Any:
        if self.opens and self.opens.pop(0) != FINE:
            raise LogBusy("nobody answers")
        return FailingWriter(self, super().writer(name))


class FailingWriter:
    def __init__(self, log: Failing, writer: EmbeddedWriter) -> None:
        self._log, self._writer = log, writer

    @property
    def last(self) -> int | None:
        return self._writer.last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        word = self._log.appends.pop(0) if self._log.appends else FINE
        made = None if word == NOT_DONE else self._writer.append(number, appends)
        if word != FINE:
            raise LogBusy("nobody answers")
        return made

    def close(self) -> None:
        self._writer.close()


words = st.lists(st.sampled_from([FINE, NOT_DONE, DONE]), min_size=1, max_size=8)


@given(appends=words, opens=st.lists(st.sampled_from([FINE, NOT_DONE]), max_size=8))
@example(appends=[DONE, FINE], opens=[NOT_DONE])
def test_the_journal_holds_exactly_the_acknowledged_entries(
    appends: list[str], opens: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = Failing(tmp_path_factory.mktemp("log") / "data")
    with log:
        journal, told = Journal(log, SystemClock()), []
        log.appends, log.opens = [*appends], [*opens]
        for at in range(len(appends) + len(opens)):
            with suppress(LogBusy):
                told.append(journal.add(f"statement {at}", {}).number)
        log.appends, log.opens = [], []
        told.append(journal.add("the last", {}).number)
        entries, following = read_journal(log)
        assert [entry.number for entry in entries] == told == [entry.number for entry in journal.entries]
        assert following == journal.next
