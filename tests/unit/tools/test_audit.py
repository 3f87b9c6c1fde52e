from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tools.audit import ROOT, Exempt, exceptions, parse_report, verdict_of

TODAY = date(2026, 11, 16)
ADVISORY = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["2.0"]}


def report(*advisories: dict[str, Any]) -> dict[str, Any]:
    affected = {"name": "Lib", "version": "1.0", "vulns": list(advisories)}
    return {"dependencies": [affected, {"name": "good", "version": "1", "vulns": []}]}


def exempt(package: str = "lib", id: str = "CVE-2026-1", until: date = TODAY) -> Exempt:
    return Exempt(package, id, "no such call is made", until)


def test_a_vulnerability_fails_the_audit() -> None:
    verdict = verdict_of(report(ADVISORY), [], TODAY)
    assert verdict.faults == ("lib 1.0: PYSEC-1, fixed in ['2.0']",)
    assert verdict.audited == 2


def test_an_excepted_vulnerability_is_reported_but_does_not_fail() -> None:
    verdict = verdict_of(report(ADVISORY), [exempt()], TODAY)
    assert verdict.faults == ()
    assert "no such call is made" in verdict.accepted[0]


@pytest.mark.parametrize(
    ("advisories", "exception", "why"),
    [
        ([ADVISORY], exempt(until=date(2026, 11, 15)), "ended on 2026-11-15"),
        ([], exempt(), "is no longer needed"),
        ([ADVISORY], exempt(package="good"), "is no longer needed"),
        ([ADVISORY], exempt(id="CVE-2026-2"), "is no longer needed"),
        ([ADVISORY], exempt(package="gone"), "is no longer needed"),
    ],
)
def test_an_expired_or_unneeded_exception_fails_the_audit(advisories: list[Any], exception: Exempt, why: str) -> None:
    assert any(why in fault for fault in verdict_of(report(*advisories), [exception], TODAY).faults)


def test_packages_that_the_service_does_not_know_are_listed() -> None:
    verdict = verdict_of({"dependencies": [{"name": "lib", "skip_reason": "not found"}]}, [exempt()], TODAY)
    assert (verdict.audited, verdict.unknown, verdict.faults) == (0, ("lib",), ())


def test_an_exception_needs_a_reason_and_a_date() -> None:
    text = '[[exception]]\npackage = "a"\nid = "b"\nreason = "{}"\nuntil = {}\n'
    assert len(exceptions(text.format("because", "2026-12-31"))) == 1
    for wrong in (text.format(" ", "2026-12-31"), text.format("because", '"soon"')):
        with pytest.raises(ValueError, match="needs a reason and a date"):
            exceptions(wrong)
    exceptions((Path(ROOT) / "tools" / "audit.toml").read_text())


@pytest.mark.parametrize(
    "errors",
    [
        "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a.example', port=443): Max retries exceeded",
        "ServiceError: 503 Server Error: Service Unavailable for url: https://a.example/pypi/a/1/json",
    ],
)
def test_without_a_network_there_is_no_verdict(errors: str) -> None:
    assert parse_report("", errors) is None


@pytest.mark.parametrize(
    "errors",
    [
        "/usr/bin/python: No module named pip_audit",
        "ERROR:pip_audit._cli:requirement file requirements.lock contains invalid specifier at line 1",
        "",
    ],
)
def test_any_other_error_fails_the_audit(errors: str) -> None:
    with pytest.raises(SystemExit, match="nothing was audited") as ended:
        parse_report("", errors)
    assert ended.value.code not in (0, None)


def test_a_report_is_read_despite_warnings() -> None:
    assert parse_report('{"dependencies": []}', "WARNING: Could not connect") == {"dependencies": []}
