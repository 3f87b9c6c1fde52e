"""Where queries run: all in this process and its one Spark, all in one process aside, or each in one of its own.

Shared is quick to start and small. Aside, this process has no Spark, which a server wants: it answers whatever Spark
does. Each in its own, a query that eats its memory, or whose Spark dies, takes no other along.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from headrace.contracts import Log
from headrace.control.apart import Process, QueryApart
from headrace.control.aside import output_into
from headrace.control.assignment import Assignment, Post
from headrace.control.running import Running
from headrace.engine.batch.shipping import Setup, packed
from headrace.engine.ground import Position
from headrace.engine.query import prepare, start
from headrace.engine.session import SparkSession, spark_session
from headrace.errors import BadSetting
from headrace.log.jars import spark_jars
from headrace.plan.nodes import Query
from headrace.settings import Settings

_FILES_KEPT = 3  # by Spark, of every query that was started
_MOST_STARTS = 10_000


class Isolation(Protocol):
    apart: ClassVar[bool]
    """Whether a query that fails leaves the others running."""

    def warm_up(self) -> None:
        """Start what queries share, which takes a while."""
        ...

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch, setup: Setup) -> Running:
        """`setup` declares the user's own functions that the query calls, wherever it comes."""
        ...

    @property
    def is_worn(self) -> bool:
        """Whether what queries share has seen so many of them that it should begin anew."""
        ...

    def close(self) -> None:
        """Give back what queries shared, once all are stopped; the next to start has it made anew."""
        ...


OnBatch = Callable[[Any], None]
"""Is told of the query when a batch is done."""


@dataclass
class Surroundings:
    """Of all queries of a program."""

    program: str
    log: Log
    settings: Settings

    @property
    def is_worn(self) -> bool:
        return False


class Shared(Surroundings):
    apart: ClassVar[bool] = False

    def warm_up(self) -> None:
        self._session()

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch, setup: Setup) -> Running:
        spark = self._session()
        return start(spark, self.log, query, self.settings, folder, lambda running, *_: on_batch(running), begin, setup)

    def close(self) -> None:
        """Spark ends with this process."""

    def _session(self) -> SparkSession:
        """The process's; made when it is first asked for."""
        with output_into(self.settings.data / "logs" / "spark.log"):
            jars = spark_jars(self.settings) if self.settings.log == "kafka" else ()
            return spark_session(self.settings, f"headrace {self.program}", jars=jars)


class Apart(Surroundings):
    apart: ClassVar[bool] = True

    def warm_up(self) -> None:
        """Nothing is shared."""

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch, setup: Setup) -> Running:
        prepared = prepare(self.log, query, self.settings, folder, begin)  # what is refused is refused here
        assignment = Assignment(packed(query), folder, begin, setup)
        return QueryApart(prepared, self._process_of(query.id), assignment, on_batch)

    def _process_of(self, query: str) -> Process:
        return Process(Post(f"{self.program} {query}", self.settings))

    def close(self) -> None:
        """Each process has ended with its query."""


@dataclass
class Aside(Apart):
    """All queries in one other process, which is started anew if it has died."""

    _process: Process | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)

    @property
    def is_worn(self) -> bool:
        return self._starts > _most_starts()

    def warm_up(self) -> None:
        self._there()

    def _process_of(self, query: str) -> Process:
        del query
        self._starts += 1
        return self._there()

    def _there(self) -> Process:
        if self._process is not None and self._process.has_ended:
            self.close()
        if self._process is None:
            self._process = Process(Post(self.program, self.settings, alone=False))
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process, self._starts = None, 0


def _most_starts() -> int:
    """Of queries in one process, for each of which Spark keeps a few files open to its end (see `engine.release`)."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_STARTS if files == resource.RLIM_INFINITY else min(files // 2 // _FILES_KEPT, _MOST_STARTS)


_ISOLATIONS: Mapping[str, Callable[[str, Log, Settings], Isolation]] = {"shared": Shared, "process": Apart}


def isolation_of(program: str, log: Log, settings: Settings) -> Isolation:
    """As the settings say."""
    if settings.isolation not in _ISOLATIONS:
        raise BadSetting(
            f'setting "isolation" cannot be "{settings.isolation}"', fix=f"choose {' or '.join(_ISOLATIONS)}"
        )
    return _ISOLATIONS[settings.isolation](program, log, settings)
