"""A table's settings: `bench/settings/<table>.toml`, so that a measurement can be repeated.

Keys above `[cases]` apply to the run (`repeats`, `warmups`, `timeout`). A table `[cases.<name>]` holds the workload,
its `targets`, and in `also` the metrics to show without a target. `quick` in either holds the values for `--quick`.
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


def load(file: Path, table: Table, *, quick: bool = False, repeats: int | None = None, only: str = "") -> TableSettings:
    """Reads the file. A case that the table does not have is an error: its targets would never be checked.

    `only` reads one case, of a file that may belong to another version of the table.
    """
    try:
        text = tomllib.loads(file.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"settings of table {table.name!r} cannot be read: {error}", where=file.name) from error
    if only:
        text["cases"] = {only: text.get("cases", {}).get(only)}
        if text["cases"][only] is None:
            raise BadSetting(
                f'the settings have no case "{only}"', where=str(file), fix="compare a case that both have"
            )
    for name in set(text.get("cases", {})) - {case.name for case in table.cases}:
        raise BadSetting(
            f'table "{table.name}" has no case "{name}"',
            where=file.name,
            fix=f"cases are: {', '.join(case.name for case in table.cases)}",
        )
    cases = {name: _case(_merged(case, quick)) for name, case in text.pop("cases", {}).items()}
    run = {"repeats": 3, "warmups": 1, "timeout": "5m", **_merged(text, quick)}
    return TableSettings(repeats or run["repeats"], run["warmups"], parse_duration(str(run["timeout"])), cases)


def _merged(values: Mapping[str, Any], quick: bool) -> dict[str, Any]:
    plain = {name: value for name, value in values.items() if name != "quick"}
    return {**plain, **values.get("quick", {})} if quick else plain


def _case(values: Mapping[str, Any]) -> CaseSettings:
    workload = {name: value for name, value in values.items() if name not in ("targets", "also")}
    targets = tuple(Target.parse(text) for text in values.get("targets", ()))
    return CaseSettings(workload, targets, tuple(values.get("also", ())))
