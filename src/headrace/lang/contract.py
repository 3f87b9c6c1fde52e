"""What a dialect is. `control`, `serve` and `testing` know languages only through this contract and the `registry`.

    dialect = dialect_of("ksql")
    for statement in dialect.parse(text, variables):
        action = planner.plan(statement)

A dialect parses text into statements and plans each of them as an action (`plan.actions`). A dialect is one package
under `lang/` with a subclass of `Dialect`; `registry` finds it by name or by the ending of a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from headrace.errors import HeadraceError, StatementError, Unsupported
from headrace.lang.listing import Listing
from headrace.plan.actions import Action, MetadataQuery, TransientSelect
from headrace.plan.catalog import Catalog
from headrace.plan.expressions import ParameterCell
from headrace.plan.nodes import Filter
from headrace.plan.sources import SourceInfo
from headrace.span import Span, place

MAX_STATEMENTS = 5_000
"""Statements that a server accepts in one request."""

# -- statements -----------------------------------------------------------------------------------------------------


class ParsedStatement(Protocol):
    """A statement of a dialect, or the error in its place. Only the dialect itself knows its syntax tree."""

    @property
    def text(self) -> str:
        """The statement's own text, with variables substituted; this is what a server journals."""
        ...

    @property
    def span(self) -> Span: ...

    @property
    def error(self) -> HeadraceError | None: ...

    @property
    def reads(self) -> Collection[str]:
        """Names of the sources that its queries read."""
        ...

    @property
    def writes(self) -> str | None:
        """Name of the existing source that its query writes to."""
        ...

    @property
    def inserts_rows(self) -> bool:
        """Whether it writes rows that stand in the statement itself."""
        ...

    @property
    def returns_rows(self) -> bool:
        """Whether its result is a stream of rows for the sender: a SELECT, a PRINT."""
        ...

    @property
    def script(self) -> str | None:
        """Path of a script that is executed in its place."""
        ...


class StatementPlanner(Protocol):
    """Plans the statements of one script or connection. `properties` are what its statements have set."""

    catalog: Catalog
    properties: dict[str, Any]

    def plan(self, statement: Any) -> Action:
        """Plan a statement that the same dialect has parsed, and change the catalog; raises if it is invalid."""
        ...


@dataclass(frozen=True)
class PlannedStatement:
    """An accepted statement, its position, and its action."""

    text: str
    where: str
    action: Action


@dataclass
class CheckedScript:
    """The actions of a script, and all its errors, in the order of its text."""

    catalog: Catalog
    planned: list[PlannedStatement] = field(default_factory=list)
    errors: list[HeadraceError] = field(default_factory=list)
    refused: int = 0
    """Number of statements with errors; one may have several."""
    following: int = 0
    """Number of statements that were not checked, since something they need was rejected."""

    @property
    def statements(self) -> int:
        return len(self.planned) + self.refused + self.following


# -- metadata -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopicStatistics:
    partitions: int = 1
    replicas: int = 1
    consumers: int = 0
    groups: int = 0
    records: int | None = None
    """Number of records, if it was counted."""


class ProcessState(StrEnum):
    WAITING = "waiting"
    """For a free worker."""
    RUNNING = "running"


@dataclass(frozen=True)
class ProcessStatus:
    """A pull or push query that has not ended. `rows` and `bytes` are those of its result so far.

    `started_at` is in ms since 1970. `cpu_seconds` and `memory` (in bytes) are those of its worker process, which
    `worker` is the id of; they are null for a query that the server itself executes.
    """

    id: int
    kind: str
    principal: str
    state: ProcessState
    text: str
    started_at: int
    seconds: float
    rows: int
    bytes: int
    worker: int | None = None
    cpu_seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class DescribeContext:
    """The state from which metadata statements are answered.

    `defaults` are the properties that have an effect, `properties` those that were set. `processes` are those that the
    principal may see.
    """

    catalog: Catalog
    topics: Mapping[str, TopicStatistics] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    processes: Sequence[ProcessStatus] = ()

    def state(self, query: str) -> str:
        """Returns the state of an existing query."""
        return "PAUSED" if query in self.paused else "RUNNING"


# -- completion -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Completion:
    """A word that an editor offers. `type` (as in CodeMirror) and `detail` are shown; a column is `of` its sources.

    `starts_statement` marks the keywords that a statement can start with: an editor offers them first there.
    """

    label: str
    type: str
    detail: str = ""
    of: tuple[str, ...] = ()
    starts_statement: bool = False


def _columns(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The columns, each with the sources that have it."""
    sources: dict[str, tuple[str, ...]] = {}
    for name, source in catalog.sources.items():
        bounds = ("WINDOWSTART", "WINDOWEND") if source.relation.window is not None else ()
        for column in (*(one.name for one in source.relation.columns), *bounds):
            sources[column] = (*sources.get(column, ()), name)
    return sources


# -- dialects -------------------------------------------------------------------------------------------------------


class Dialect(ABC):
    """A language. `parse` and `planner` are required; the other methods are capabilities that a dialect may lack."""

    name: ClassVar[str]
    """The name in the registry and in journal entries."""
    file_endings: ClassVar[tuple[str, ...]] = ()
    default_properties: Mapping[str, Any] = {}
    """The properties that have an effect, with their defaults."""
    reserved: Collection[str] = frozenset()
    """Words that must be quoted as names."""

    @abstractmethod
    def parse(self, text: str, variables: dict[str, str], *, name: str | None = None) -> Iterator[ParsedStatement]:
        """Parse statement by statement; every error has its position. `name` is the file's.

        Statements may define variables for those that follow.
        """

    @abstractmethod
    def planner(self, catalog: Catalog, properties: Mapping[str, Any] | None = None) -> StatementPlanner:
        """A planner that changes the given catalog."""

    def parse_one(self, text: str) -> ParsedStatement:
        """Parse a text that contains exactly one statement."""
        statements = list(self.parse(text, {}))
        for statement in statements:
            if statement.error is not None:
                raise statement.error
        if len(statements) != 1:
            raise StatementError(f"expected one statement, got {len(statements)}", fix="send one statement at a time")
        return statements[0]

    def count(self, text: str) -> int:
        """The number of statements, valid or not, found without parsing them."""
        return sum(1 for _ in self.parse(text, {}))

    def check(
        self,
        text: str,
        name: str | None = None,
        catalog: Catalog | None = None,
        properties: Mapping[str, Any] | None = None,
        *,
        reads_files: bool = True,
    ) -> CheckedScript:
        """Plan a whole script without applying it, and collect all errors. The given catalog is not changed."""
        del reads_files
        planner = self.planner(Catalog() if catalog is None else catalog.copy(), properties)
        checked = CheckedScript(planner.catalog)
        for statement in self.parse(text, {}, name=name):
            try:
                if statement.error is not None:
                    raise statement.error
                planned = PlannedStatement(statement.text, place(statement.span, name), planner.plan(statement))
            except HeadraceError as error:
                checked.refused += 1
                checked.errors.append(located(error, statement.span, text, name))
            else:
                checked.planned.append(planned)
        return checked

    def describe(self, query: MetadataQuery, context: DescribeContext) -> Listing:
        """Answer a metadata statement."""
        raise self._unsupported("metadata statements")

    def completions(self, catalog: Catalog) -> list[Completion]:
        """The words that an editor offers: names of sources and their columns; then the words of the dialect."""
        words = [Completion(name, "class", str(source.kind)) for name, source in catalog.sources.items()]
        return words + [Completion(name, "property", ", ".join(of), of) for name, of in _columns(catalog).items()]

    def format(self, text: str) -> str:
        """Parse a statement and write it back in the dialect's normal form."""
        return self.parse_one(text).text

    def condition(self, text: str, source: SourceInfo, types: Mapping[str, pa.DataType]) -> Filter:
        """The rows of a source for which a condition holds; every error has its position in the text."""
        raise self._unsupported("conditions outside statements")

    def parameterize(self, text: str) -> tuple[str, list[Any]] | None:
        """Split a pull query into its shape and the values in it; None if it cannot be prepared."""
        return None

    def plan_parameterized(
        self, text: str, values: Sequence[Any], catalog: Catalog
    ) -> tuple[TransientSelect, Sequence[ParameterCell]] | None:
        """Plan a pull query with parameters in place of its values; None if it cannot be prepared."""
        return None

    def _unsupported(self, what: str) -> Unsupported:
        return Unsupported(f"the dialect {self.name} has no {what}", fix="use KSQL for this")


def located(error: HeadraceError, span: Span, text: str, name: str | None) -> HeadraceError:
    """The error with its position in the text."""
    if isinstance(error, StatementError):
        error.span = error.span or span
        return error.located(text, name)
    error.where = error.where or place(span, name)
    return error
