"""The program, called in this process and on a data folder of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace import cli, logfile
from headrace.log.embedded import EmbeddedLog


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Program:
    data: Path

    def __call__(self, *arguments: object, code: int = 0) -> Answer:
        words = ["--data", str(self.data), *map(str, arguments)]
        result = CliRunner().invoke(cli.app, words, prog_name="headrace", catch_exceptions=False)
        assert result.exit_code == code, result.stdout + result.stderr
        return Answer(result.exit_code, result.stdout, result.stderr)

    def wait_for(self, topic: str, rows: int) -> None:
        """Sleep until partition 0 of a topic holds so many rows, by whomever they are appended."""
        with EmbeddedLog(self.data) as log:
            while True:
                rung = log.store.commit_signal.commits
                if log.bounds(topic)[0].end >= rows:
                    return
                log.wait(rung, timedelta(seconds=10))


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    monkeypatch.chdir(tmp_path)  # where no headrace.toml lies
    for name in ("HEADRACE_STORAGE_DATA", "HEADRACE_STORAGE_LOG", "HEADRACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield Program(tmp_path / "data")
    logfile.close()


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    """Write lines to a file."""

    def write(*given: str, name: str = "lines.txt") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in given))
        return path

    return write
