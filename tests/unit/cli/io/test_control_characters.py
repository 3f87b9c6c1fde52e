"""Control characters in what commands print."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.cli.io.control_characters import escape_controls, escape_json_controls
from headrace.cli.io.output import value_text
from headrace.contracts import Append
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\r"


def test_control_characters_are_escaped() -> None:
    assert escape_controls("a\x1b[2J\nb", "\n") == "a\\x1b[2J\nb"
    assert value_text("x\x1b[2J") == "x\\x1b[2J"


def test_escaped_json_is_the_same_json() -> None:
    text = json.dumps({"a": HOSTILE}, ensure_ascii=False)
    shown = escape_json_controls(text)
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert json.loads(shown) == json.loads(text)


def _consume(data: Path, format: str, *, on_terminal: bool) -> bytes:
    command = [sys.executable, "-P", "-c", "from headrace.cli import main; main()", "--data", str(data)]
    command += ["consume", "plain", "--format", format]
    if not on_terminal:
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as shown:
        with os.fdopen(theirs, "wb", 0) as terminal:
            subprocess.run(command, stdout=terminal, stderr=subprocess.DEVNULL, check=True, timeout=60)
        found = b""
        with suppress(OSError):  # the other end is closed
            while part := shown.read(65536):
                found += part
    return found


@pytest.mark.parametrize("format", ["raw", "json", "csv", "csv-exact", "table"])
def test_a_record_cannot_control_the_terminal(tmp_path: Path, format: str) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("plain")
        log.append([Append("plain", [Record(HOSTILE.encode())])])
    shown = _consume(tmp_path / "data", format, on_terminal=True).decode()
    assert not set(shown) & {"\x07", "\x9b", "\u202e"}
    assert "\x1b[2J" not in shown
    assert "\x1b]0;" not in shown
    piped = _consume(tmp_path / "data", format, on_terminal=False)
    if format in ("raw", "csv-exact"):
        assert HOSTILE.encode() in piped
    if format == "json":
        assert json.loads(piped)["value"] == HOSTILE
    if format == "table":
        assert b"\x1b" not in piped
