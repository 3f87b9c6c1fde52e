"""Archives of Java's classes: which one, made from which list, and what if it cannot be made."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.spark import class_archive
from headrace.engine.spark.class_archive import ClassArchive, create_class_archive

JAVA = shutil.which("java")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """The archive of this machine's Java, in a folder that does not exist yet."""
    monkeypatch.setattr(class_archive, "_MIN_CLASSES", 10)
    archive = ClassArchive.locate(tmp_path / "cache")
    assert archive is not None
    return archive


@pytest.fixture
def scratch(tmp_path: Path, archive: ClassArchive) -> Path:
    """A folder with the list of the classes of a small program; its last line is not complete."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    (option,) = archive.options(str(folder))
    subprocess.run([str(archive.java), "-Xshare:off", option, "-version"], capture_output=True, check=True)
    with (folder / "classes.list").open("ab") as file:
        file.write(b"java/lang/Str")
    return folder


@pytest.fixture
def java_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of one that runs Java."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_java_uses_an_archive_that_was_made_from_its_list(archive: ClassArchive, scratch: Path) -> None:
    assert archive.create(scratch, "")
    (archive_option, quiet) = archive.options(str(scratch))
    used = subprocess.run(
        [str(archive.java), "-Xshare:on", archive_option, quiet, "-version"], capture_output=True, text=True, check=True
    )
    assert "sharing" in used.stderr
    assert list(archive.path.parent.iterdir()) == [archive.path]
    assert archive.path.parent.stat().st_mode & 0o077 == 0


def test_an_archive_is_made_once(archive: ClassArchive, scratch: Path) -> None:
    archive.path.parent.mkdir()
    archive.path.write_bytes(b"as it was")
    assert archive.create(scratch, "")
    assert archive.path.read_bytes() == b"as it was"


@pytest.mark.parametrize("classes", [0, 9], ids=["no list", "a short list"])
def test_a_list_without_the_classes_of_a_query_makes_no_archive(
    archive: ClassArchive, tmp_path: Path, classes: int
) -> None:
    if classes:
        (tmp_path / "classes.list").write_text("java/lang/Object\n" * classes)
    assert not archive.create(tmp_path, "")
    assert not archive.path.parent.exists()


def test_classes_are_listed_only_where_a_folder_for_temporary_files_was_given(archive: ClassArchive) -> None:
    assert archive.options(None) == []
    assert archive.options("/scratch") == ["-XX:DumpLoadedClassList=/scratch/classes.list"]


def test_another_java_has_another_archive(
    archive: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin/java", "lib/modules"):
        file = tmp_path / "java" / name
        file.parent.mkdir(parents=True)
        file.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    other = ClassArchive.locate(archive.path.parent)
    assert other is not None
    assert other.path != archive.path
    (tmp_path / "java" / "lib" / "modules").unlink()
    assert ClassArchive.locate(archive.path.parent) is None
    (tmp_path / "java" / "bin" / "java").unlink()
    assert ClassArchive.locate(archive.path.parent) is None


def test_a_java_that_fails_leaves_nothing_behind(
    archive: ClassArchive,
    scratch: Path,
    tmp_path: Path,
    java_process: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(scratch))
    monkeypatch.setattr(class_archive, "_classpath", lambda process: "")
    assert not create_class_archive(archive.path.parent, java_process.pid)
    assert list(archive.path.parent.iterdir()) == []


def test_a_process_that_is_no_java_makes_no_archive(
    archive: ClassArchive, scratch: Path, java_process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(scratch))
    assert not create_class_archive(archive.path.parent, java_process.pid)


def test_what_a_killed_process_has_left_is_removed(archive: ClassArchive, scratch: Path) -> None:
    left = archive.path.parent / "new-left"
    left.mkdir(parents=True)
    (left / "classes.jsa").write_bytes(b"half")
    long_ago = time.time() - 86_400
    os.utime(left, (long_ago, long_ago))
    assert archive.create(scratch, "")
    assert not left.exists()
