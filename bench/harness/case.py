"""Tables, cases and sides: a table has cases, and a case has sides that do the same work.

A side is a function of the table's module, run by the project's own interpreter, or a script under `bench/peers`, run
in an environment of its own. Both get the same JSON and print the same line; see `bench.side`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors import BadOption

OURS = "ours"


@dataclass(frozen=True)
class Work:
    """The input of one run of a side: its settings, an empty folder on a real disk, addresses of services."""

    settings: Mapping[str, Any]
    folder: Path
    services: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a side, without its warm-up. Latencies are milliseconds, one per record."""

    records: int
    seconds: float
    latencies: Sequence[float] = ()
    extra: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "seconds": self.seconds,
            "latencies": list(self.latencies),
            "extra": dict(self.extra),
        }


@dataclass(frozen=True)
class Side:
    """One of the systems compared. `settings` override the case's; `needs` names services that must be running."""

    run: Callable[[Work], Outcome] | None = None
    script: str | None = None
    requirements: str | None = None
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.run is None) == (self.script is None):
            raise BadOption("a side has either a function or a script", fix="give run=... or script=..., not both")
        if self.run is not None and self.requirements is not None:
            raise BadOption(
                f'side "{self.run.__name__}" is a function, so it runs in the project\'s environment',
                fix="make it a script under bench/peers to give it requirements of its own",
            )


@dataclass(frozen=True)
class Case:
    """Sides in the order in which they run; "ours" is the one that targets are about.

    `outside` has words; processes whose command has one of them are counted apart.
    """

    name: str
    what: str
    sides: Mapping[str, Side]
    unit: str = "records"
    outside: tuple[str, ...] = ()


Service = Callable[[Path], AbstractContextManager[Any]]
"""Starts a service that sides share, in a folder; its result, such as an address, goes to `Work.services`."""


@dataclass(frozen=True)
class Table:
    """Cases that are run and reported together."""

    name: str
    what: str
    cases: tuple[Case, ...]
    services: Mapping[str, Service] = field(default_factory=dict)
    note: str = ""
    """Explains metrics, below the table."""

    def case(self, name: str) -> Case:
        for case in self.cases:
            if case.name == name:
                return case
        known = ", ".join(case.name for case in self.cases)
        raise BadOption(f'table "{self.name}" has no case "{name}"', fix=f"cases are: {known}")
