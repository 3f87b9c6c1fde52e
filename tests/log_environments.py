"""Where state machines run: a world opens a log as often as it is asked, and declares what cannot be done in it.

A machine knows rules and checks only. Whatever differs between logs is said here, as values: what a row cannot carry,
how long news may travel. Rules and checks that make no sense in a world are named in a table beside the machine.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from headrace.clock import Clock
from headrace.contracts import Log, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings, Size
from tests.memory_log import MemoryLog

Machine = TypeVar("Machine", bound=type)

_places = itertools.count()


class LogEnvironment(ABC):
    """One place after another: `begin` a place, `open` its log any number of times, `end` it."""

    forgets: ClassVar[tuple[str, ...]] = ()
    """Columns that are left out of rows."""

    marks: ClassVar[int] = 0
    """How many offsets behind an append may be taken by the log itself."""

    reads_ahead: ClassVar[bool] = False
    """Whether a consumer may hand out rows that were removed a moment ago."""

    rebalances_late: ClassVar[bool] = False
    """Whether members learn of a rebalance only when they poll or commit."""

    news: ClassVar[timedelta] = timedelta(0)
    """How long it may take until all members of a group know of a change."""

    looks: ClassVar[int | None] = None
    """How many topics are looked at after each step; all of them in the end."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.place = ""

    def begin(self) -> None:
        """A new place; names that begin with `place` are in use nowhere else."""
        self.stack = ExitStack()
        self.place = f"m{next(_places)}-"

    @abstractmethod
    def open(self, clock: Clock) -> Any: ...

    def spec(self, spec: TopicSpec) -> TopicSpec:
        """The spec as it can be had here."""
        return spec

    @abstractmethod
    def compact(self, log: Any) -> None: ...

    def end(self) -> None:
        self.stack.close()


class MemoryEnvironment(LogEnvironment):
    """A log in memory, which is in no place at all."""

    def open(self, clock: Clock) -> Any:
        return MemoryLog(clock)

    def compact(self, log: MemoryLog) -> None:
        log.compact()


class EmbeddedEnvironment(LogEnvironment):
    """A folder of its own for each place."""

    SETTINGS = Settings.of(
        storage_maintenance_interval=timedelta(0),
        storage_inline_bytes=Size(600),  # so that both kinds of extents, and merging over several sizes, are met
        storage_extent_file_bytes=Size(20_000),
        storage_file_delete_delay=timedelta(seconds=30),
    )

    def begin(self) -> None:
        super().begin()
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-machine-"))
        self.stack.callback(shutil.rmtree, self.folder)

    def open(self, clock: Clock) -> EmbeddedLog:
        return self.stack.enter_context(EmbeddedLog(self.folder, self.SETTINGS, clock))

    def compact(self, log: EmbeddedLog) -> None:
        assert log.maintenance.run(force_compaction=True) is not None


class KafkaEnvironment(LogEnvironment):
    """A broker that all places share; it tidies when it likes, so topics are such that it never does."""

    forgets: ClassVar[tuple[str, ...]] = ("$deleted",)  # a message without a value keeps nothing but its key
    marks: ClassVar[int] = 1  # a transaction ends with one
    reads_ahead: ClassVar[bool] = True
    rebalances_late: ClassVar[bool] = True
    news: ClassVar[timedelta] = timedelta(seconds=60)
    looks: ClassVar[int | None] = 1

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def open(self, clock: Clock) -> Log:
        from headrace.log.kafka import KafkaLog

        return self.stack.enter_context(KafkaLog(self._settings, clock))

    def compact(self, log: Any) -> None:
        """A broker compacts when it likes, not on demand."""

    def spec(self, spec: TopicSpec) -> TopicSpec:
        return replace(spec, archive=False, compact=False, retention_time=None, retention_bytes=None)


def machine_for(world: LogEnvironment, machine: Machine, lacking: Mapping[str, str]) -> Machine:
    """The machine as it runs in a world: what is lacking there (each with a reason) is no rule and no check of it."""
    strange = [name for name in lacking if not hasattr(machine, name)]
    assert not strange, f"{machine.__name__} has no {strange}"
    members: dict[str, Any] = {"world": world, **dict.fromkeys(lacking)}
    return cast(Machine, type(f"{machine.__name__}On{type(world).__name__}", (machine,), members))
