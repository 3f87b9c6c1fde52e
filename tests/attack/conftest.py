"""Servers to attack, and the table attack -> held at the end of a run.

A test is marked `@pytest.mark.attack("what the attacker does", "what holds")`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack.server import AttackedServer

_ROWS = pytest.StashKey[dict[str, tuple[str, str, str]]]()
_OUTCOMES = {"passed": "held", "failed": "BROKEN", "skipped": "skipped"}


@pytest.fixture
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    """A server with default settings on a fresh data folder."""
    with AttackedServer(tmp_path_factory.mktemp("attack") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def shared_attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    """One server for the tests of a module, which leave it usable for each other."""
    with AttackedServer(tmp_path_factory.mktemp("attack") / "data") as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROWS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    marker = item.get_closest_marker("attack")
    if marker is not None and (report.when == "call" or report.outcome != "passed"):
        attack, holds = marker.args
        item.config.stash[_ROWS][item.nodeid] = attack, holds, _OUTCOMES[report.outcome]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash[_ROWS].values():
        terminalreporter.section("attacks")
        for attack, holds, outcome in rows:
            terminalreporter.write_line(f"{outcome:8}{attack} -> {holds}")
