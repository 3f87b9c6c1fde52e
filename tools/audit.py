"""Checks the pinned packages for known vulnerabilities: `make audit`.

pip-audit queries an advisory service over the network. If the service is unreachable, the audit prints so and succeeds,
so that work without a network is possible; with `--strict` it fails. Any other error of pip-audit is a failure.
Exceptions are in `tools/audit.toml`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_TIMEOUT = 300  # seconds for the whole audit
_OPTIONS = ["-r", "requirements-dev.lock", "--no-deps", "--disable-pip", "--timeout", "10", "--progress-spinner", "off"]
_UNREACHABLE = re.compile(
    r"ConnectionError|Could not connect|HTTPS?ConnectionPool|ConnectTimeout|ReadTimeout|ProxyError|name resolution"
    r"|Network is unreachable|5\d\d Server Error"
)


@dataclass(frozen=True)
class Exempt:
    package: str
    id: str
    reason: str
    until: date


@dataclass(frozen=True)
class Verdict:
    """`unknown` are packages that the advisory service does not know."""

    faults: tuple[str, ...]
    accepted: tuple[str, ...]
    unknown: tuple[str, ...]
    audited: int


def exceptions(text: str) -> list[Exempt]:
    entries = [Exempt(**one) for one in tomllib.loads(text).get("exception", [])]
    for one in entries:
        if not one.reason.strip() or not isinstance(one.until, date):
            raise ValueError(f"{one.id} of {one.package} needs a reason and a date")
    return entries


def verdict_of(report: Mapping[str, Any], exempt: Sequence[Exempt], today: date) -> Verdict:
    """The verdict on a report of pip-audit, given the exceptions."""
    faults: list[str] = []
    accepted: list[str] = []
    packages = {one["name"].lower(): one for one in report["dependencies"]}
    used: set[Exempt] = set()
    for name, package in packages.items():
        for advisory in package.get("vulns", ()):
            ids = {advisory["id"], *advisory.get("aliases", ())}
            exception = next((one for one in exempt if one.package.lower() == name and one.id in ids), None)
            text = f"{name} {package['version']}: {advisory['id']}, fixed in {advisory['fix_versions'] or 'no version'}"
            if exception is None:
                faults.append(text)
            else:
                used.add(exception)
                accepted.append(f"{text}; accepted until {exception.until}: {exception.reason}")
    faults += [f"{one.package}: the exception for {one.id} ended on {one.until}" for one in exempt if one.until < today]
    unknown = tuple(name for name, one in packages.items() if "skip_reason" in one)
    unneeded = [one for one in exempt if one not in used and one.package.lower() not in unknown]
    faults += [f"{one.package}: the exception for {one.id} is no longer needed" for one in unneeded]
    return Verdict(tuple(faults), tuple(accepted), unknown, len(packages) - len(unknown))


def _report() -> Mapping[str, Any] | None:
    """The report of pip-audit; None if the advisory service is unreachable."""
    command = [sys.executable, "-m", "pip_audit", *_OPTIONS, "-f", "json"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        print(f"no response within {_TIMEOUT} s")
        return None
    return parse_report(done.stdout, done.stderr)


def parse_report(out: str, errors: str) -> Mapping[str, Any] | None:
    """The report in the output; None if the service is unreachable. Exits on any other error: nothing was audited."""
    try:
        return json.loads(out)
    except ValueError:
        if not _UNREACHABLE.search(errors):
            raise SystemExit(f"pip-audit failed, so nothing was audited:\n{errors}") from None
    print("".join(errors.splitlines(keepends=True)[-1:]), end="")
    return None


def main() -> int:
    exempt = exceptions((ROOT / "tools" / "audit.toml").read_text())
    report = _report()
    verdict = verdict_of(report, exempt, date.today()) if report else Verdict((), (), (), 0)
    for line in (*verdict.faults, *verdict.accepted):
        print(line)
    if not verdict.audited:
        print("NOT AUDITED: the advisory service is unreachable, so the packages were not checked")
        return int("--strict" in sys.argv)
    print(f"{verdict.audited} packages audited, {len(verdict.unknown)} unknown to the service: {verdict.unknown}")
    return int(bool(verdict.faults))


if __name__ == "__main__":
    sys.exit(main())
