"""Archives of the Java classes that Spark loads: Java maps them into memory instead of reading thousands of classes.

Where there is no archive yet, the Spark process of a server lists the classes that it loads. When it is warm, an
archive is made of this list, by another Java with the lowest priority; every Spark process uses it from then on. Java
itself checks that an archive fits its version, its classpath and the dates of the jars, and does without it otherwise.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

_LIST, _PREFIX = "classes.list", "new-"
_LIMIT = 600.0  # seconds that making an archive may take, on a busy machine
_QUIET = "-Xlog:cds*=error"  # an archive that does not fit is no news
_MIN_CLASSES = 5_000  # fewer are not the classes of a query
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassArchive:
    """The archive for the Java and the Spark of this machine, whether it exists or not."""

    path: Path
    java: Path

    @classmethod
    def locate(cls, folder: Path) -> ClassArchive | None:
        """The archive in a folder; None if there is no Java."""
        home = os.environ.get("JAVA_HOME")
        found = shutil.which("java", path=home and f"{home}/bin")
        if found is None:
            return None
        java = Path(found).resolve()
        try:
            built = (java.parent.parent / "lib" / "modules").stat().st_mtime_ns
        except OSError:  # no Java that has archives
            return None
        name = hashlib.sha256(f"{java} {built} {pyspark.__version__} {pyspark.__file__}".encode()).hexdigest()[:16]
        return cls(folder.expanduser() / f"{name}.jsa", java)

    def options(self, scratch: str | None) -> list[str]:
        """Java options that use the archive or, in a process with a scratch folder, list the classes for it."""
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", _QUIET]
        return [f"-XX:DumpLoadedClassList={scratch}/{_LIST}"] if scratch else []

    def create(self, scratch: Path, classpath: str) -> bool:
        """Make the archive from the list in a scratch folder; returns whether there is one now."""
        if self.path.exists():
            return True
        classes = _complete_lines(scratch / _LIST)
        if len(classes) < _MIN_CLASSES:
            return False
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(self.path.parent)
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=_PREFIX) as folder:
            listed, made = Path(folder, _LIST), Path(folder, "classes.jsa")
            listed.write_bytes(b"".join(classes))
            began = time.monotonic()
            subprocess.run(
                [
                    *_lowest_priority(),
                    *(str(self.java), "-Xshare:dump", "-XX:+UseSerialGC", "-cp", classpath),
                    *(f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={made}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LIMIT,
                check=True,
            )
            made.rename(self.path)
            _logger.info("an archive of Spark's classes was made in %.0f s: %s", time.monotonic() - began, self.path)
        return True


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed have left."""
    for one in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - one.stat().st_mtime > 2 * _LIMIT:
                shutil.rmtree(one, ignore_errors=True)


def create_class_archive(folder: Path, java_process: int) -> bool:
    """Make the archive for a Spark process that has listed its classes; a failure costs only the archive."""
    archive, scratch = ClassArchive.locate(folder), scratch_folder()
    if archive is None or scratch is None:
        return False
    try:
        return archive.create(Path(scratch), _classpath(java_process))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _logger.warning("no archive of Spark's classes was made: %s", error)
        return False


def scratch_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    """The folder for temporary files that a server gives its Spark processes."""
    return environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def _classpath(java_process: int) -> str:
    """With the wildcards that the process was started with."""
    arguments = Path(f"/proc/{java_process}/cmdline").read_bytes().split(b"\0")
    return os.fsdecode(arguments[arguments.index(b"-cp") + 1])


def _complete_lines(file: Path) -> list[bytes]:
    """Java may be writing the last line."""
    with suppress(FileNotFoundError):
        return [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return []


def _lowest_priority() -> list[str]:
    return ["nice", "-n", "19"] if shutil.which("nice") else []
