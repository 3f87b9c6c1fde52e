"""The jars are used only if they are the pinned files. Maven is a program that puts files where it is told."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.control.admin import doctor
from headrace.errors import KafkaJarMismatch, KafkaNotInstalled
from headrace.log.kafka import jars
from headrace.log.kafka.jars import SETS, SPARK, JarSet
from headrace.settings import Settings

_MAVEN = """#!{python}
import pathlib, sys
out = next(word.partition("=")[2] for word in sys.argv if word.startswith("-DoutputDirectory="))
pathlib.Path(out).mkdir()
for name, content in {files!r}.items():
    (pathlib.Path(out) / name).write_bytes(content)
"""


@dataclass(frozen=True)
class _PinnedHere(JarSet):
    """A set whose jars this test makes up."""

    files: tuple[tuple[str, bytes], ...] = ()

    @property
    def checksums(self) -> Mapping[str, str]:  # type: ignore[override]
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}


_FILES = (("a-1.jar", b"first"), ("b-2.jar", b"second"))
_SET = _PinnedHere("made-up", ("org.example:a:1",), transitive=True, files=_FILES)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.of(kafka_jars=tmp_path / "jars")


@pytest.fixture
def installed(settings: Settings) -> Path:
    """The folder of the made-up set, with the pinned files."""
    folder = _SET.folder(settings)
    folder.mkdir(parents=True)
    for name, content in _FILES:
        (folder / name).write_bytes(content)
    return folder


def _fetch(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: dict[str, bytes]) -> None:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(_MAVEN.format(python=sys.executable, files=served))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    jars.fetch(settings, sets=(_SET,))


@pytest.mark.parametrize("jar_set", SETS, ids=lambda one: one.name)
def test_each_jar_is_pinned(jar_set: JarSet) -> None:
    assert len(jar_set.checksums) >= len(jar_set.coordinates)
    for name, digest in jar_set.checksums.items():
        assert name.endswith(".jar")
        assert len(bytes.fromhex(digest)) == 32
    for coordinates in jar_set.coordinates:
        assert "{1}-{2}.jar".format(*coordinates.split(":")) in jar_set.checksums


def test_the_pinned_jars_are_used_and_no_others(settings: Settings, installed: Path) -> None:
    (installed / "evil.jar").write_bytes(b"not pinned")
    assert jars.installed_jars(_SET, settings) == [installed / "a-1.jar", installed / "b-2.jar"]


def test_a_changed_jar_is_refused_with_both_hashes(settings: Settings, installed: Path) -> None:
    (installed / "b-2.jar").write_bytes(b"changed")
    with pytest.raises(KafkaJarMismatch) as refused:
        jars.installed_jars(_SET, settings)
    assert refused.value.where == str(installed / "b-2.jar")
    for content in (b"second", b"changed"):
        assert hashlib.sha256(content).hexdigest() in refused.value.what
    assert f'delete the folder "{installed}"' in (refused.value.fix or "")


def test_a_missing_jar_is_refused(settings: Settings, installed: Path) -> None:
    (installed / "a-1.jar").unlink()
    with pytest.raises(KafkaJarMismatch, match="is missing"):
        jars.installed_jars(_SET, settings)


def test_a_fetched_set_is_verified_and_installed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fetch(settings, tmp_path, monkeypatch, dict(_FILES))
    assert [jar.read_bytes() for jar in jars.installed_jars(_SET, settings)] == [b"first", b"second"]


def test_a_mirror_that_serves_another_jar_installs_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KafkaJarMismatch) as refused:
        _fetch(settings, tmp_path, monkeypatch, {"a-1.jar": b"first", "b-2.jar": b"backdoor"})
    assert "mirror" in (refused.value.fix or "")
    assert list(settings.kafka.jars.iterdir()) == []


def test_installed_jars_are_verified_instead_of_fetched_again(
    settings: Settings, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "a-1.jar").write_bytes(b"changed")
    with pytest.raises(KafkaJarMismatch):
        _fetch(settings, tmp_path, monkeypatch, dict(_FILES))


def test_spark_and_brokers_get_no_jar_that_is_not_verified(settings: Settings) -> None:
    for jar_set in SETS:
        jar_set.folder(settings).mkdir(parents=True)
    for use in (jars.spark_jars, jars.broker_classpath):
        with pytest.raises(KafkaJarMismatch):
            use(settings)


def test_doctor_tells_missing_jars_from_changed_ones(settings: Settings) -> None:
    def state() -> tuple[str, str]:
        (found,) = [one for one in doctor.check_kafka(settings) if one.check == "kafka jars"]
        return found.state, found.fix or ""

    assert state() == ("warn", "headrace kafka jars")
    for jar_set in SETS:
        jar_set.folder(settings).mkdir(parents=True)
    failed, fix = state()
    assert failed == "fail"
    assert fix.startswith("delete the folder")


def test_missing_jars_are_not_installed(settings: Settings) -> None:
    with pytest.raises(KafkaNotInstalled):
        jars.installed_jars(SPARK, settings)
