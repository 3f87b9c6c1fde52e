"""Python processes that are forked instead of started: they do what Python does, and nothing outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from headrace.engine.spark.python_processes import ForkServerProcess
from tests.wait import wait_until

PROGRAMS = {
    "arguments, folder and environment": """
        import os, sys
        print(sys.argv[1:], os.getcwd(), os.environ["GIVEN"], "HOME" in os.environ, __name__)
    """,
    "standard files": """
        import sys
        text = sys.stdin.read()
        print("read", text)
        print("told", text.upper(), file=sys.stderr)
    """,
    "an exit code": "raise SystemExit(7)",
    "an exit with a message": "import sys\nsys.exit('a message')",
    "an error": "raise ValueError('broken')",
    "no module of the working folder": "import queue\nprint(queue.SimpleQueue)",
    "hashes": "print(hash('text'))",
    "a process of its own": """
        import subprocess, sys
        print(subprocess.check_output([sys.executable, "-c", "print(1)"]))
    """,
}
WAITS = "import os, sys\nprint(os.getpid(), os.getppid(), flush=True)\nsys.stdin.read()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerProcess]:
    server = ForkServerProcess(tmp_path_factory.mktemp("server"))
    yield server
    assert server.is_alive
    os.kill(server.pid, signal.SIGKILL)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    folder.mkdir()
    return folder


def command(
    python: str | Path, modules: Path, program: str, *arguments: str, **environment: str
) -> subprocess.Popen[str]:
    (modules / "given_program.py").write_text(textwrap.dedent(program))
    return launched(python, modules, *arguments, **environment)


def launched(python: str | Path, modules: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Run the program that was written last, in a folder with a module that hides one of Python's own."""
    working = modules.parent / "working"
    if not working.exists():
        working.mkdir()
        (working / "queue.py").write_text("raise RuntimeError('imported from the working folder')")
    return subprocess.Popen(
        [str(python), "-m", "given_program", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=working,
        env={
            "PYTHONPATH": str(modules),
            "PYTHONSAFEPATH": "1",
            "PYTHONHASHSEED": "0",
            "GIVEN": "ä b",
            "LC_ALL": "C.UTF-8",
            **environment,
        },
    )


@pytest.mark.parametrize("seed", ["0", "7"], ids=["forked", "another hash seed, which needs a new Python"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_module_does_what_it_does_in_python(
    server: ForkServerProcess, modules: Path, program: str, seed: str
) -> None:
    def outcome(python: str | Path) -> tuple[int, str, list[str]]:
        process = command(python, modules, program, "-x", "two words", PYTHONHASHSEED=seed)
        out, errors = process.communicate("some text", timeout=60)
        return process.returncode, out, errors.splitlines()[-1:]

    assert outcome(server.launcher) == outcome(sys.executable)


def test_a_process_is_forked_from_the_server(server: ForkServerProcess, modules: Path) -> None:
    process = command(server.launcher, modules, WAITS)
    out, _ = process.communicate(timeout=60)
    assert int(out.split()[1]) == server.pid


def test_an_interrupt_of_the_terminal_goes_to_no_process(server: ForkServerProcess, modules: Path) -> None:
    process, pid = started(server, modules)
    assert {os.getpgid(server.pid), os.getpgid(pid)} == {server.pid}
    assert process.communicate(timeout=60)[0] == ""


def test_a_process_ends_with_its_launcher(server: ForkServerProcess, modules: Path) -> None:
    process, pid = started(server, modules)
    process.kill()
    process.wait()
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_launcher_ends_with_its_process(server: ForkServerProcess, modules: Path) -> None:
    process, pid = started(server, modules)
    os.kill(pid, signal.SIGKILL)
    assert process.wait(30) == 128 + signal.SIGKILL


def test_many_processes_start_at_once(server: ForkServerProcess, modules: Path) -> None:
    command(sys.executable, modules, "import sys\nprint(sys.argv[1])").communicate(timeout=60)

    def run(number: int) -> str:
        process = launched(server.launcher, modules, str(number))
        return process.communicate(timeout=60)[0].strip()

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(run, range(40))) == [str(number) for number in range(40)]


def test_without_the_server_a_launcher_is_python(tmp_path: Path, modules: Path) -> None:
    server = ForkServerProcess(tmp_path)
    first, pid = started(server, modules)
    os.kill(server.pid, signal.SIGKILL)
    assert first.wait(30) == 1
    wait_until(lambda: not server.is_alive)
    process = command(server.launcher, modules, "print('still runs')")
    assert process.communicate(timeout=60)[0] == "still runs\n"
    os.kill(pid, signal.SIGKILL)


def test_everything_ends_with_the_process_that_started_the_server(tmp_path: Path, modules: Path) -> None:
    program = f"""
        import time
        from pathlib import Path
        from headrace.engine.spark.python_processes import python_executable
        print(python_executable(Path({str(tmp_path)!r})), flush=True)
        time.sleep(60)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    process = command(owner.stdout.readline().strip(), modules, WAITS)
    assert process.stdout is not None
    pid, server = map(int, process.stdout.readline().split())
    owner.kill()
    owner.wait()
    wait_until(lambda: not psutil.pid_exists(pid) and not psutil.pid_exists(server))
    process.kill()
    process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder that allows no programs")
def test_where_no_programs_may_run_spark_starts_python(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        program = f"""
            import sys
            from pathlib import Path
            from headrace.engine.spark.python_processes import python_executable
            print(python_executable(Path({str(tmp_path)!r})) == sys.executable)
        """
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
        )
        assert run.stdout == "True\n"
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def started(server: ForkServerProcess, modules: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that runs until its input ends, and its id."""
    process = command(server.launcher, modules, WAITS)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[0])
