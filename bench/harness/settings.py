"""A table's settings: `bench/settings/<table>.toml`, so that a figure can be had again as it was had.

Keys above `[cases]` steer the run (`repeats`, `warmups`, `timeout`); a table `[cases.<name>]` holds the workload and
its `targets`, and in `also` metrics to show without a target. `quick` inside either holds what `--quick` puts in place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.harness.case import Table
from bench.harness.targets import Target
from headrace.errors import BadSetting
from headrace.settings import parse_duration


@dataclass(frozen=True)
class CaseSettings:
    workload: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableSettings:
    """How often everything runs, and each case's workload and targets."""

    repeats: int
    warmups: int
    timeout: timedelta
    cases: Mapping[str, CaseSettings]

    def as_dict(self) -> dict[str, Any]:
        return {
            "repeats": self.repeats,
            "warmups": self.warmups,
            "timeout_seconds": self.timeout.total_seconds(),
            "cases": {
                name: {**case.workload, "targets": [f"{t.metric} {t}" for t in case.targets]}
                for name, case in self.cases.items()
            },
        }


def load(file: Path, table: Table, *, quick: bool = False, repeats: int | None = None) -> TableSettings:
    """Read the file; a case it does not know is an error, for a target there would never be judged."""
    try:
        text = tomllib.loads(file.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"settings of table {table.name!r} cannot be read: {error}", where=file.name) from error
    for name in set(text.get("cases", {})) - {case.name for case in table.cases}:
        raise BadSetting(
            f'table "{table.name}" has no case "{name}"',
            where=file.name,
            fix=f"cases are: {', '.join(case.name for case in table.cases)}",
        )
    cases = {name: _case(_laid(case, quick)) for name, case in text.pop("cases", {}).items()}
    run = {"repeats": 3, "warmups": 1, "timeout": "5m", **_laid(text, quick)}
    return TableSettings(repeats or run["repeats"], run["warmups"], parse_duration(str(run["timeout"])), cases)


def _laid(values: Mapping[str, Any], quick: bool) -> dict[str, Any]:
    plain = {name: value for name, value in values.items() if name != "quick"}
    return {**plain, **values.get("quick", {})} if quick else plain


def _case(values: Mapping[str, Any]) -> CaseSettings:
    workload = {name: value for name, value in values.items() if name not in ("targets", "also")}
    targets = tuple(Target.parse(text) for text in values.get("targets", ()))
    return CaseSettings(workload, targets, tuple(values.get("also", ())))
