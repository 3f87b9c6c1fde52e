"""The wheel, installed without the repository and used by a user who is not root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.locks import ROOT, RUNTIME, read_lock

NOBODY = 65534
SCRIPT = """
CREATE STREAM CITIES (ID BIGINT KEY, NAME VARCHAR) WITH (KAFKA_TOPIC='cities', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM LONG AS SELECT ID, LEN(NAME) AS LETTERS FROM CITIES WHERE LEN(NAME) > 4 EMIT CHANGES;
CREATE TABLE LETTERS AS SELECT LEN(NAME) AS N, COUNT(*) AS CITIES FROM CITIES GROUP BY LEN(NAME);
INSERT INTO CITIES VALUES (1, 'Oslo');
INSERT INTO CITIES VALUES (2, 'Turin');
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment and a home, both outside the repository."""

    venv: Path
    home: Path

    def __call__(self, *words: str, given: str = "", code: int = 0, seconds: int = 240) -> str:
        path = f"{self.venv / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        done = subprocess.run(
            [*_unprivileged_prefix(), str(self.venv / "bin" / "headrace"), *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env={**kept, "HOME": str(self.home), "PATH": path, "TMPDIR": str(self.home)},
            timeout=seconds,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout


def _unprivileged_prefix() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that others than its maker may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-wheel-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def headrace(place: Path) -> Installed:
    wheels = place / "wheels"
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)], cwd=ROOT)
    (wheel,) = wheels.glob("headrace-*.whl")
    venv = place / "venv"
    _run([_interpreter(), "-m", "venv", "--without-pip", str(venv)], cwd=place)
    # The versions without their hashes: with them, pip refuses a wheel that no lock names.
    versions = place / "versions.txt"
    versions.write_text("".join(f"{name}=={pin.version}\n" for name, pin in read_lock(RUNTIME).items()))
    environment = {**os.environ, "PIP_CONSTRAINT": str(versions)}
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python")]
    _run([*pip, "install", "-q", str(wheel)], cwd=place, env=environment)
    home = place / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    return Installed(venv, home)


def _interpreter() -> str:
    """A Python that every user may run: that of the tests may be in root's home."""
    script = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
    found = (sys._base_executable, "/usr/bin/python3")  # type: ignore[attr-defined]
    for candidate in found:
        # By a shell, because setpriv gives its rights up only after it has found the program.
        command = [*_unprivileged_prefix(), "sh", "-c", '"$0" -c "$1"', candidate, script]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return candidate
    raise AssertionError(f"none of {found} is a Python 3.11 that everybody may run")


def _run(command: list[str], cwd: Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_the_installed_package_is_used(headrace: Installed) -> None:
    from headrace import __version__

    assert headrace("version") == f"headrace {__version__}\n"
    found = subprocess.run(
        [str(headrace.venv / "bin" / "python"), "-c", "import headrace; print(headrace.__file__)"],
        cwd=headrace.home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).is_relative_to(headrace.venv)


def test_rows_are_produced_and_consumed(headrace: Installed) -> None:
    headrace("topic", "create", "orders", "--schema", "id bigint key, city string", "--partitions", "2")
    headrace("produce", "orders", given='{"id":1,"city":"Oslo"}\n{"id":2,"city":"Rome"}\n')
    found = headrace("consume", "orders", "--format", "csv")
    assert sorted(found.splitlines()) == ["1,Oslo", "2,Rome"]
    assert "no damage" in headrace("storage", "check")
    assert (headrace.home / "headrace-data" / "FORMAT").stat().st_uid != 0


def test_doctor_finds_no_failure(headrace: Installed) -> None:
    assert "fail" not in headrace("doctor")


def test_without_kafka_the_error_names_the_extra_to_install(headrace: Installed) -> None:
    headrace("--log", "kafka", "topic", "list", code=1)


def test_the_demo_runs(headrace: Installed) -> None:
    seen = headrace("demo", "--seconds", "5", "--plain")
    assert re.search(r"[1-9][\d,]* changes pushed", seen)
    assert re.search(r"[1-9][\d,]* clicks counted", seen)


def test_a_script_runs(headrace: Installed) -> None:
    """Record by record, without Kafka's client; and its state is read by a process that runs nothing."""
    (headrace.home / "cities.ksql").write_text(SCRIPT)
    headrace("run", "cities.ksql", "--until-idle")
    found = headrace("consume", "LONG", "--format", "json")
    assert [json.loads(line)["value"] for line in found.splitlines()] == ['{"LETTERS":5}']
    (groups,) = json.loads(headrace("state", "show", "CTAS_LETTERS_1", "--json"))
    assert groups["entries"] == 2
