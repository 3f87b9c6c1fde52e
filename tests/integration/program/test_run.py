"""`headrace run` in its own process: signals, kill -9, and output on a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark
from tests.unit.cli.conftest import Program

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]
SCRIPT = """
CREATE STREAM numbers (id INT KEY, n INT) WITH (kafka_topic='numbers', format='JSON');
CREATE TABLE sums AS SELECT id, SUM(n) AS total FROM numbers GROUP BY id;
INSERT INTO numbers VALUES (1, 20);
INSERT INTO numbers VALUES (1, 22);
"""


def started(data: Path, *arguments: object, **how: object) -> subprocess.Popen[str]:
    command = [*PROGRAM, "--data", str(data), "run", "sums.ksql", *map(str, arguments)]
    environment = {
        **os.environ,
        "HEADRACE_SPARK_DRIVER_MEMORY": "1 GB",
        "HEADRACE_QUERY_EMIT": "per-record",
        "COLUMNS": "160",
    }
    return subprocess.Popen(command, cwd=data.parent, env=environment, text=True, **how)  # type: ignore[call-overload]


def test_a_stopped_or_killed_program_resumes(headrace: Program, tmp_path: Path) -> None:
    (tmp_path / "sums.ksql").write_text(SCRIPT)
    headrace("topic", "create", "SUMS")  # so that there is something to wait for
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    with started(headrace.data, **pipes) as running:
        headrace.wait_for("SUMS", 2)
        second = headrace("run", "sums.ksql", code=1)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the whole group
        out, err = running.communicate()
    assert f'program-running: program "sums" is already running: process {running.pid}' in second.err
    assert (running.returncode, out) == (0, "")
    lines = err.splitlines()
    assert lines[-1] == "stopped; 1 query; 2 records read, 2 written; 2 rows inserted"
    assert all(line.endswith(" ...") or "CTAS_SUMS_0" in line for line in lines[:-1]), err

    with started(headrace.data, **pipes) as running:
        with EmbeddedLog(headrace.data) as log:
            memory_and_spark.append(log, "numbers", "1", '{"N": 3}', 0)
        headrace.wait_for("SUMS", 3)
        running.kill()
        running.communicate()

    with started(headrace.data, "--until-idle", "--json", **pipes) as running:
        out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert '"ended":"all input is processed"' in out.splitlines()[-1]
    assert '"inserted":0,"repeated":2' in out.splitlines()[-1]
    with EmbeddedLog(headrace.data) as log:
        assert [value for _, value, _ in memory_and_spark.written(log, "SUMS")] == [
            b'{"TOTAL":20}',
            b'{"TOTAL":42}',
            b'{"TOTAL":45}',
        ]


def test_a_terminal_shows_a_live_table_and_a_second_ctrl_c_exits_at_once(headrace: Program, tmp_path: Path) -> None:
    (tmp_path / "sums.ksql").write_text(SCRIPT)
    ours, theirs = pty.openpty()
    with started(headrace.data, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as running:
        os.close(theirs)
        seen = _until(ours, b"records/s")  # a terminal that nobody reads stands still
        os.killpg(running.pid, signal.SIGINT)
        os.killpg(running.pid, signal.SIGINT)
        _until(ours, None)
        assert running.wait() in (130, 0)  # 0: both came as one
    os.close(ours)
    assert b"starting Spark" in seen
    assert b"TransformWithState" not in seen


def _until(terminal: int, word: bytes | None) -> bytes:
    """What comes up to that word, or to the end."""
    seen = b""
    while word is None or word not in seen:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # Linux says so when the other side has closed it
            break
    return seen
