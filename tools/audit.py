"""Whether a pinned package has a known weakness: `make audit`.

pip-audit asks a service of advisories over the network. Where that cannot be reached nothing is known: that is said,
and is no failure, so that work goes on without a network (`--strict` makes it one). Whatever else keeps pip-audit from
answering is a failure. Exceptions: `tools/audit.toml`.
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
_PATIENCE = 300  # seconds for all of it
_ASKED = ["-r", "requirements-dev.lock", "--no-deps", "--disable-pip", "--timeout", "10", "--progress-spinner", "off"]
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
    """`unknown` are packages that nobody could say anything about."""

    faults: tuple[str, ...]
    borne: tuple[str, ...]
    unknown: tuple[str, ...]
    audited: int


def exceptions(text: str) -> list[Exempt]:
    found = [Exempt(**one) for one in tomllib.loads(text).get("exception", [])]
    for one in found:
        if not one.reason.strip() or not isinstance(one.until, date):
            raise ValueError(f"{one.id} of {one.package} needs a reason and a date")
    return found


def judged(report: Mapping[str, Any], exempt: Sequence[Exempt], today: date) -> Verdict:
    """What pip-audit has reported, in the light of the exceptions."""
    faults: list[str] = []
    borne: list[str] = []
    packages = {one["name"].lower(): one for one in report["dependencies"]}
    used: set[Exempt] = set()
    for name, package in packages.items():
        for weakness in package.get("vulns", ()):
            ids = {weakness["id"], *weakness.get("aliases", ())}
            known = next((one for one in exempt if one.package.lower() == name and one.id in ids), None)
            text = (
                f"{name} {package['version']}: {weakness['id']}, mended in {weakness['fix_versions'] or 'no version'}"
            )
            if known is None:
                faults.append(text)
            else:
                used.add(known)
                borne.append(f"{text}; borne until {known.until}: {known.reason}")
    faults += [f"{one.package}: the exception for {one.id} ended on {one.until}" for one in exempt if one.until < today]
    unknown = tuple(name for name, one in packages.items() if "skip_reason" in one)
    needless = [one for one in exempt if one not in used and one.package.lower() not in unknown]
    faults += [f"{one.package}: the exception for {one.id} is needed no more" for one in needless]
    return Verdict(tuple(faults), tuple(borne), unknown, len(packages) - len(unknown))


def _report() -> Mapping[str, Any] | None:
    """What pip-audit says; None if it cannot ask."""
    command = [sys.executable, "-m", "pip_audit", *_ASKED, "-f", "json"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        print(f"no answer within {_PATIENCE} s")
        return None
    return said(done.stdout, done.stderr)


def said(out: str, errors: str) -> Mapping[str, Any] | None:
    """A report; None if the network is why there is none. Other reasons are failures: nothing was looked at."""
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
    verdict = judged(report, exempt, date.today()) if report else Verdict((), (), (), 0)
    for line in (*verdict.faults, *verdict.borne):
        print(line)
    if not verdict.audited:
        print("NOT AUDITED: the service of advisories cannot be reached from here, so nothing is known of any package")
        return int("--strict" in sys.argv)
    print(f"{verdict.audited} packages audited, {len(verdict.unknown)} unknown to the service: {verdict.unknown}")
    return int(bool(verdict.faults))


if __name__ == "__main__":
    sys.exit(main())
