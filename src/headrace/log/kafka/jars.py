"""Kafka's jars: fetched once by Maven coordinates, then used offline.

`checksums/` pins the SHA-256 of each jar, in the format of `sha256sum`. Only these jars are used, and they are verified
before each use (60 ms for Spark's, 200 ms for a broker's). A set is fetched into a temporary folder and renamed when it
is complete and verified.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.errors import KafkaJarMismatch, KafkaNotInstalled
from headrace.settings import Settings

Progress = Callable[[str], None]
_CHECKSUMS = Path(__file__).with_name("checksums")


@dataclass(frozen=True)
class JarSet:
    """Maven coordinates that are fetched together."""

    name: str
    coordinates: tuple[str, ...]
    transitive: bool
    checksum_folder: Path = _CHECKSUMS

    def folder(self, settings: Settings) -> Path:
        return settings.kafka.jars.expanduser() / self.name

    @cached_property
    def checksums(self) -> Mapping[str, str]:
        """The SHA-256 of each jar, by the name of its file."""
        lines = (self.checksum_folder / f"{self.name}.sha256").read_text().splitlines()
        return {name: digest for digest, name in map(str.split, lines)}


# Kafka leaves the choice of a logger to its distribution; without one a broker dies without any message.
_LOGGER = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
BROKER = JarSet("broker-4.1.0", ("org.apache.kafka:kafka_2.13:4.1.0", _LOGGER), transitive=True)
SPARK = JarSet(
    "spark-4.2.0",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # works with the 4.2.0 connector
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    transitive=False,  # Spark ships the rest: Scala, slf4j, lz4, snappy, zstd
)
SETS = (BROKER, SPARK)


def fetch(settings: Settings, on_progress: Progress | None = None, sets: Sequence[JarSet] = SETS) -> list[Path]:
    """Fetch every missing set; returns the folders."""
    say = on_progress or (lambda text: None)
    return [_fetch_set(jar_set, settings, say) for jar_set in sets]


def broker_classpath(settings: Settings) -> str:
    """The class path of a Kafka broker."""
    return os.pathsep.join(str(jar) for jar in installed_jars(BROKER, settings))


def spark_jars(settings: Settings) -> list[Path]:
    """The jars that Spark's Kafka connector adds to Spark."""
    return installed_jars(SPARK, settings)


def installed_jars(jar_set: JarSet, settings: Settings) -> list[Path]:
    """The jars of a set. Raises if they are not installed, or are other files."""
    folder = jar_set.folder(settings)
    if not folder.is_dir():
        raise KafkaNotInstalled(f'the jars "{jar_set.name}" are missing', where=str(folder), fix="headrace kafka jars")
    return _verified(jar_set, folder, fix=f'delete the folder "{folder}", then: headrace kafka jars')


def _verified(jar_set: JarSet, folder: Path, *, fix: str) -> list[Path]:
    """The pinned jars of a folder. Raises if one is missing or another file; `fix` is the advice."""
    return [_verified_jar(folder / name, digest, fix) for name, digest in jar_set.checksums.items()]


def _verified_jar(jar: Path, expected: str, fix: str) -> Path:
    try:
        with jar.open("rb") as content:
            actual = hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        raise KafkaJarMismatch(f'jar "{jar.name}" is missing', where=str(jar), fix=fix) from None
    if actual != expected:
        what = f'jar "{jar.name}" has the SHA-256 {actual}, expected {expected}'
        raise KafkaJarMismatch(what, where=str(jar), fix=fix)
    return jar


def _fetch_set(jar_set: JarSet, settings: Settings, say: Progress) -> Path:
    folder = jar_set.folder(settings)
    if folder.is_dir():
        say(f"{jar_set.name}: {len(installed_jars(jar_set, settings))} jars present")
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{jar_set.name}-") as scratch:
        fetched = _resolve(jar_set, Path(scratch), say)
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():  # fine if another process was faster
                raise
    say(f"{jar_set.name}: {len(jar_set.checksums)} jars fetched")
    return folder


def _resolve(jar_set: JarSet, scratch: Path, say: Progress) -> Path:
    say(f"{jar_set.name}: fetching {', '.join(jar_set.coordinates)}")
    out = scratch / "jars"
    if reason := _maven(jar_set.coordinates, jar_set.transitive, scratch, out):
        raise KafkaNotInstalled(
            f'the jars "{jar_set.name}" could not be downloaded: {reason}',
            fix="check the network and Maven's settings.xml, then: headrace kafka jars",
        )
    _verified(jar_set, out, fix="delete the jar from Maven's local repository and check the mirror in its settings.xml")
    return out


def _maven(coordinates: tuple[str, ...], transitive: bool, scratch: Path, out: Path) -> str:
    """Copy jars into `out`; returns the reason if Maven failed."""
    program = shutil.which("mvn")
    if program is None:
        raise KafkaNotInstalled("Maven (mvn) is not installed", fix="install maven, then: headrace kafka jars")
    pom = scratch / "pom.xml"
    pom.write_text(_pom(coordinates, transitive))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={out}", "-DincludeScope=runtime"]
    done = subprocess.run(
        [program, "-B", "-q", "-f", str(pom), *goal], capture_output=True, text=True, check=False, cwd=scratch
    )
    if done.returncode == 0 and any(out.glob("*.jar")):
        return ""
    lines = [line.partition("[ERROR]")[2].strip() for line in (done.stdout + done.stderr).splitlines()]
    return next((line for line in lines if line), f"mvn exited with code {done.returncode}")


def _pom(coordinates: tuple[str, ...], transitive: bool) -> str:
    none_further = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *coordinate.split(":"), "" if transitive else none_further
        )
        for coordinate in coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>headrace</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
