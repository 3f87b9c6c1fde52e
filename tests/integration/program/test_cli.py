"""The program in its own process: imports, pipes, signals and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.unit.cli.conftest import Program

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]
# Shells let what they start in the background ignore Ctrl-C, and children inherit that.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def test_help_imports_no_heavy_module() -> None:
    script = (
        "import sys\n"
        "from headrace.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'pandas', 'pyarrow', 'numpy', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_command_imports_spark_pandas_or_kafka() -> None:
    script = (
        "import sys\n"
        "from headrace.cli.root import COMMANDS, load\n"
        "for name in COMMANDS: load(name)\n"
        "heavy = {'pyspark', 'pandas', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_prints_one_line(headrace: Program) -> None:
    headrace("topic", "create", "a")
    program = [sys.executable, "-c", f"{INTERRUPTIBLE}; from headrace.cli import main; main()"]
    command = [*program, "--data", str(headrace.data), "produce", "a"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stderr
    process.stdin.write("one\n")
    process.stdin.flush()
    headrace.wait_for("a", 1)  # it waits for more of its input by then, or will at once
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr.read() == "stopped by Ctrl-C: rows read: 1; the last batch may not be appended\n"
    process.stdin.close()
    process.stderr.close()


def test_a_closed_pipe_ends_the_program_silently(headrace: Program, lines) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines(*("x" * 100 for _ in range(20_000))))
    command = [*PROGRAM, "--data", str(headrace.data), "consume", "a"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_an_error_without_a_terminal_is_plain_text(headrace: Program) -> None:
    headrace("topic", "create", "a")
    environment = {**os.environ, "TERM": "xterm-256color"}
    command = [*PROGRAM, "--data", str(headrace.data), "topic", "describe", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("unknown-topic: ")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("more", [(), ("--group", "g")], ids=["directly", "group"])
def test_consume_follows_a_topic(headrace: Program, lines, more: tuple[str, ...]) -> None:
    headrace("topic", "create", "n")
    headrace("produce", "n", lines(*map(str, range(10))))
    command = [*PROGRAM, "--data", str(headrace.data), "consume", "n", "-f", "--max", "12", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert [process.stdout.readline() for _ in range(10)] == [f"{i}\n" for i in range(10)]
    headrace("produce", "n", lines("10"))
    assert process.stdout.readline() == "10\n"
    headrace("produce", "n", lines("11"))
    assert process.stdout.read() == "11\n"
    assert process.wait() == 0
    process.stdout.close()


def test_standard_input_is_appended_as_it_arrives(headrace: Program) -> None:
    headrace("topic", "create", "a")
    command = [*PROGRAM, "--data", str(headrace.data), "produce", "a", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin
    process.stdin.write(b"first\nhalf a")
    process.stdin.flush()
    headrace.wait_for("a", 1)  # while the pipe is still open
    assert headrace("consume", "a").out == "first\n"
    process.stdin.write(b" line\nlast, without an end")
    process.stdin.close()
    assert process.wait() == 0
    assert headrace("consume", "a").out == "first\nhalf a line\nlast, without an end\n"
