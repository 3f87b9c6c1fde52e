from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tools.locks import BUILD, DEVELOPMENT, ROOT, RUNTIME, read_lock

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [
    Requirement(text) for part in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()) for text in part
]
LOCKS = pytest.mark.parametrize("lock", [BUILD, RUNTIME, DEVELOPMENT], ids=lambda lock: lock.name)


@LOCKS
def test_every_package_is_pinned_with_hashes(lock: Path) -> None:
    pins = read_lock(lock)
    assert pins
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for pin in pins.values() for each in pin.hashes)


@LOCKS
def test_a_lock_names_no_index_and_no_path(lock: Path) -> None:
    """The lines are pins and hashes only: no option of pip, no address, no comment."""
    lines = lock.read_text().splitlines()
    pin = re.compile(r"[a-z0-9-]+==[\w.]+( ; [\w' !=<>.]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert [line for line in lines if not pin.fullmatch(line)] == []


@pytest.mark.parametrize("part", [BUILD, RUNTIME], ids=lambda lock: lock.name)
def test_development_only_adds_packages(part: Path) -> None:
    development = read_lock(DEVELOPMENT)
    assert {name: pin for name, pin in read_lock(part).items() if development.get(name) != pin} == {}


UNBOUNDED = {"cryptography", "pyarrow", "regex"}  # docs/contributing.md says why


def test_the_runtime_lock_satisfies_the_requirements() -> None:
    pins = read_lock(RUNTIME)
    assert [each for each in REQUIREMENTS if not each.specifier.contains(pins[each.name].version)] == []


def test_requirements_are_bounded_above() -> None:
    unbounded = {
        each.name for each in REQUIREMENTS if not any(bound.operator in ("<", "==") for bound in each.specifier)
    }
    assert unbounded == UNBOUNDED


def test_tools_of_development_are_not_installed_with_the_product() -> None:
    assert not {"pytest", "ruff", "pyright", "playwright", "matplotlib", "pip-audit"} & read_lock(RUNTIME).keys()


@pytest.mark.parametrize(
    "line",
    ["orjson==3.13.0", "orjson>=3 --hash=sha256:0", "orjson @ file:///orjson.whl --hash=sha256:0", "-r other.lock"],
)
def test_a_line_that_is_not_a_pin_with_hashes_is_an_error(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "wrong.lock"
    lock.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"orjson|other"):
        read_lock(lock)


def test_setup_installs_only_what_a_lock_names() -> None:
    """By hash, or the project itself: without its dependencies, and built without what pip would fetch for that."""
    installs = re.findall(r"pip install (.*)", (ROOT / "tools" / "setup.sh").read_text())
    assert len(installs) == 2
    for options in installs:
        assert {"--no-deps", "--no-build-isolation"} <= set(options.split())
        assert "--require-hashes" in options or options.endswith(" -e .")
