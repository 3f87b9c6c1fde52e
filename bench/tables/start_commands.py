"""Cases of commands: a script that runs until it has processed its input, and the demo until it shows counts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.harness.case import Outcome, Work
from bench.tables.serve_server import PROGRAM

_SCRIPT = """
CREATE STREAM orders (id INT KEY, city STRING) WITH (kafka_topic='orders', format='JSON', partitions=1);
CREATE TABLE sales AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city;
INSERT INTO orders VALUES (1, 'Oslo');
INSERT INTO orders VALUES (2, 'Oslo');
"""
_COUNTS = re.compile(r"clicks/s: /")
_PATIENCE = 180.0
_STOP_PATIENCE = 60.0


def _command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "--data", str(folder / "data"), *arguments]


def run_until_idle(work: Work) -> Outcome:
    script = work.folder / "sales.ksql"
    script.write_text(_SCRIPT)
    began = time.monotonic()
    done = subprocess.run(
        _command(work.folder, "run", str(script), "--until-idle", "--plain"),
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    seconds = time.monotonic() - began
    rows = subprocess.run(
        _command(work.folder, "consume", "SALES"), capture_output=True, text=True, timeout=_PATIENCE, check=True
    ).stdout
    if done.returncode or '"N":2' not in rows.replace(" ", ""):
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-500:]} {rows[-500:]}")
    return Outcome(1, seconds)


def demo(work: Work) -> Outcome:
    """In a pipe, where the demo prints lines."""
    output, began = work.folder / "demo.txt", time.monotonic()
    with (
        output.open("wb") as file,
        subprocess.Popen(_command(work.folder, "demo", "--seconds", "120"), stdout=file, stderr=file) as process,
    ):
        try:
            while not _COUNTS.search(text := output.read_text()):
                if process.poll() is not None or time.monotonic() - began > _PATIENCE:
                    raise RuntimeError(f"the demo shows no counts: {text[-1000:]}")
                time.sleep(0.05)
            seconds = time.monotonic() - began
        finally:
            process.send_signal(signal.SIGINT)
            _end(process)
    return Outcome(1, seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
