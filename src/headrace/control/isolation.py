"""Where the queries of a program run: all of them in this process and its one Spark, or each in a process of its own.

Shared is quick to start and small. Apart, a query that eats its memory, or whose Spark dies, takes no other along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from headrace.contracts import Log
from headrace.control.apart import QueryApart
from headrace.control.aside import output_into
from headrace.control.assignment import Assignment
from headrace.control.running import Running
from headrace.engine.batch.shipping import Setup, packed
from headrace.engine.ground import Position
from headrace.engine.query import prepare, start
from headrace.engine.session import SparkSession, spark_session
from headrace.errors import BadSetting
from headrace.log.jars import spark_jars
from headrace.plan.nodes import Query
from headrace.settings import Settings


class Isolation(Protocol):
    apart: ClassVar[bool]
    """Whether a query that fails leaves the others running."""

    def warm_up(self) -> None:
        """Start what queries share, which takes a while."""
        ...

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch) -> Running: ...


OnBatch = Callable[[Any], None]
"""Is told of the query when a batch is done."""


@dataclass(frozen=True)
class Surroundings:
    """Of all queries of a program."""

    program: str
    log: Log
    settings: Settings
    setup: Setup


class Shared(Surroundings):
    apart: ClassVar[bool] = False

    def warm_up(self) -> None:
        self._session()

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch) -> Running:
        spark = self._session()
        return start(
            spark, self.log, query, self.settings, folder, lambda running, *_: on_batch(running), begin, self.setup
        )

    def _session(self) -> SparkSession:
        """The process's; made when it is first asked for."""
        with output_into(self.settings.data / "logs" / "spark.log"):
            jars = spark_jars(self.settings) if self.settings.log == "kafka" else ()
            return spark_session(self.settings, f"headrace {self.program}", jars=jars)


class Apart(Surroundings):
    apart: ClassVar[bool] = True

    def warm_up(self) -> None:
        """Nothing is shared."""

    def start(self, query: Query, folder: Path, begin: Position | None, on_batch: OnBatch) -> Running:
        prepared = prepare(self.log, query, self.settings, folder, begin)  # what is refused is refused here
        assignment = Assignment(self.program, packed(query), self.settings, folder, begin, self.setup)
        return QueryApart(prepared, assignment, on_batch)


_ISOLATIONS: Mapping[str, Callable[[str, Log, Settings, Setup], Isolation]] = {"shared": Shared, "process": Apart}


def isolation_of(program: str, log: Log, settings: Settings, setup: Setup) -> Isolation:
    """As the settings say."""
    if settings.isolation not in _ISOLATIONS:
        raise BadSetting(
            f'setting "isolation" cannot be "{settings.isolation}"', fix=f"choose {' or '.join(_ISOLATIONS)}"
        )
    return _ISOLATIONS[settings.isolation](program, log, settings, setup)
