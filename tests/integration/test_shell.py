"""`headrace sql` at a real terminal, with a real `headrace up`."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.client import Client
from headrace.errors import ConnectionLost, HeadraceError
from tests.integration.program.test_cli import INTERRUPTIBLE

PROGRAM = [sys.executable, "-c", f"{INTERRUPTIBLE}; from headrace.cli import main; main()"]
CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (KAFKA_TOPIC='clicks', FORMAT='JSON', PARTITIONS=1);"
_DRAWING = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>78])|\r")


@contextmanager
def running(data: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*PROGRAM, "--data", str(data), "up", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "listens on" in line)
        try:
            yield process, told.split("listens on ")[1].split(";")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "data") as (_, address):
        yield address


class Terminal:
    """What a person sees and types."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, *words: str) -> str:
        """Read until these have come, in this order; what came since the last call."""
        pattern = re.compile(".*?".join(map(re.escape, words)), re.S)
        while (found := pattern.search(_DRAWING.sub("", self._seen))) is None:
            try:
                self._seen += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # Linux says so when the other side has closed it
                raise AssertionError(f"{words} never came: {self._seen!r}") from None
        seen, self._seen = _DRAWING.sub("", self._seen), ""
        return seen[: found.end()]

    def end(self) -> None:
        """Reads the remaining output: a terminal that is not read blocks its program."""
        try:
            while os.read(self._ours, 65536):
                pass
        except OSError:
            pass


@contextmanager
def shell(server: str, state: Path) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    env = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [
        sys.executable,
        "-c",
        f"{_OWN_TERMINAL}; {INTERRUPTIBLE}; from headrace.cli import main; main()",
        "sql",
        "--server",
        server,
    ]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True) as one:
        os.close(theirs)
        try:
            yield Terminal(ours), one
        finally:
            one.kill()
            os.close(ours)


# So that Ctrl-C, which a person types, becomes a signal.
_OWN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"


def test_statements_typed_at_a_terminal_are_executed(server: str, tmp_path: Path) -> None:
    with shell(server, tmp_path / "state") as (terminal, process):
        terminal.until("help for help", "headrace>")
        terminal.type(CLICKS.replace(" WITH", "\rWITH") + "\r")  # on two lines
        terminal.until("Stream created", "headrace>")
        terminal.type("DESCRIBE cli\t")
        terminal.until("cks")  # what was begun is there already
        terminal.type(";\r")
        terminal.until("PAGE", "VARCHAR(STRING)", "headrace>")
        terminal.type("SELECT nothing FROM")  # Ctrl-C lets go of what was typed
        terminal.type("\x03")
        terminal.until("headrace>", "headrace>")
        terminal.type("DESCRIBE nothing;\r")
        terminal.until("source-not-found", "headrace>")  # and the shell goes on
        terminal.type("\\q\r")
        terminal.end()
        assert process.wait() == 0
    history = tmp_path / "state" / "headrace" / "sql_history"
    assert "DESCRIBE clicks;" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
    with shell(server, tmp_path / "state") as (terminal, process):
        terminal.until("headrace>")
        terminal.type("\x1b[A\x1b[A")  # the statement before the last one
        terminal.until("DESCRIBE", "nothing")
        terminal.type("\x03")
        terminal.until("headrace>")
        terminal.type("\x04")
        terminal.end()
        assert process.wait() == 0


def test_rows_are_printed_as_they_arrive_until_ctrl_c(server: str, tmp_path: Path) -> None:
    client = Client(server)
    client.execute(CLICKS)
    with shell(server, tmp_path) as (terminal, process):
        terminal.until("headrace>")
        terminal.type("SELECT id, page FROM clicks EMIT CHANGES; LIST TOPICS;\r")
        terminal.until("ID | PAGE", "----")  # the query is there, though no row is
        client.execute("INSERT INTO clicks VALUES (1, 'one');")
        terminal.until("1 | one")
        client.execute(f"INSERT INTO clicks VALUES (2, '{'x' * 70}');")
        terminal.until(f"2 | {'x' * 30}\n", f"  | {'x' * 30}\n", f"  | {'x' * 10}\n")
        terminal.type("\x03")
        assert "Partitions" not in terminal.until("ended", "headrace>")  # what follows is not done
        terminal.type("PRINT clicks;\r")
        terminal.until("Key format: JSON", "Value format: JSON")
        client.execute("INSERT INTO clicks VALUES (3, 'three');")
        terminal.until('key: 3, value: {"PAGE":"three"}, partition: 0')
        terminal.type("\x03")
        terminal.until("ended", "headrace>")
        terminal.type("SET 'auto.offset.reset' = 'earliest';\r")
        terminal.until("headrace>")
        terminal.type("\\o json\r")
        terminal.until("headrace>")
        terminal.type("SELECT id FROM clicks EMIT CHANGES LIMIT 2;\r")
        terminal.until('{"ID": 1}', '{"ID": 2}', "2 rows", "headrace>")
        terminal.type("exit\r")
        terminal.end()
        assert process.wait() == 0


def test_ctrl_c_stops_the_query_of_a_script(server: str) -> None:
    Client(server).execute(CLICKS)
    statement = "SELECT * FROM clicks EMIT CHANGES;"
    command = [*PROGRAM, "sql", "--server", server, "--output", "csv", "--execute", statement]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ID,PAGE\n"
        Client(server).execute("INSERT INTO clicks VALUES (1, 'one');")
        assert process.stdout.readline() == "1,one\n"  # not kept back until there are more
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_the_shell_reports_a_dead_server(tmp_path: Path) -> None:
    with running(tmp_path / "data") as (process, address):
        Client(address).execute(CLICKS)
        rows = Client(address).query("SELECT * FROM clicks EMIT CHANGES;")
        with rows, shell(address, tmp_path) as (terminal, _):
            terminal.until("headrace>")
            terminal.type("SELECT * FROM clicks EMIT CHANGES;\r")
            terminal.until("----")
            process.kill()
            with pytest.raises(ConnectionLost):
                next(iter(rows))
            terminal.until("connection-lost", "headrace>")
            terminal.type("LIST TOPICS;\r")
            terminal.until("server-unreachable", "headrace>")


def test_rows_are_inserted_and_selected(server: str) -> None:
    client = Client(server)
    client.execute(CLICKS)
    assert client.insert("clicks", ({"id": n, "page": f"/{n}"} for n in range(2500))) == 2500
    with client.query("SELECT * FROM clicks EMIT CHANGES LIMIT 2500;", {"auto.offset.reset": "earliest"}) as rows:
        assert [row[0] for row in rows] == list(range(2500))
    refused: list[int] = []
    rows = [{"id": 1}, {"id": "one"}, {"id": 2}]
    assert client.insert("clicks", rows, lambda number, error: refused.append(number)) == 2
    assert refused == [1]
    with pytest.raises(HeadraceError):
        client.insert("nothing", rows)
