"""Kafka's jars: fetched once by Maven coordinates, then used offline.

A set is fetched into a temporary folder and renamed when it is complete, so an existing folder is always complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import KafkaNotInstalled
from headrace.settings import Settings

Progress = Callable[[str], None]


@dataclass(frozen=True)
class JarSet:
    """Coordinates that are fetched together. `choices` are tried in order until one resolves."""

    name: str
    choices: tuple[tuple[str, ...], ...]
    transitive: bool

    def folder(self, settings: Settings) -> Path:
        return settings.kafka.jars.expanduser() / self.name


def _spark(token_provider: str) -> tuple[str, ...]:
    return (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{token_provider}",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    )


# Kafka leaves the choice of a logger to its distribution; without one a broker dies without any message.
_LOGGER = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
BROKER = JarSet("broker-4.1.0", (("org.apache.kafka:kafka_2.13:4.1.0", _LOGGER),), transitive=True)
# Spark ships the rest (Scala, slf4j, lz4, snappy, zstd). The 4.0.0 token provider works with the 4.2.0 connector.
SPARK = JarSet("spark-4.2.0", (_spark("4.2.0"), _spark("4.0.0")), transitive=False)
SETS = (BROKER, SPARK)


def fetch(settings: Settings, on_progress: Progress | None = None) -> list[Path]:
    """Fetch every missing set; returns the folders."""
    say = on_progress or (lambda text: None)
    return [_fetch_set(jar_set, jar_set.folder(settings), say) for jar_set in SETS]


def broker_classpath(settings: Settings) -> str:
    """The class path of a Kafka broker."""
    return os.pathsep.join(str(jar) for jar in _jars(BROKER, settings))


def spark_jars(settings: Settings) -> list[Path]:
    """The jars that Spark's Kafka connector adds to Spark."""
    return _jars(SPARK, settings)


def _jars(jar_set: JarSet, settings: Settings) -> list[Path]:
    folder = jar_set.folder(settings)
    if not folder.is_dir():
        raise KafkaNotInstalled(f'the jars "{jar_set.name}" are missing', where=str(folder), fix="headrace kafka jars")
    return sorted(folder.glob("*.jar"))


def _fetch_set(jar_set: JarSet, folder: Path, say: Progress) -> Path:
    if folder.is_dir():
        say(f"{jar_set.name}: {len(list(folder.glob('*.jar')))} jars present")
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{jar_set.name}-") as scratch:
        fetched = _resolve(jar_set, Path(scratch), say)
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():  # fine if another process was faster
                raise
    say(f"{jar_set.name}: {len(list(folder.glob('*.jar')))} jars fetched")
    return folder


def _resolve(jar_set: JarSet, scratch: Path, say: Progress) -> Path:
    reason = ""
    for number, coordinates in enumerate(jar_set.choices):
        say(f"{jar_set.name}: fetching {', '.join(coordinates)}")
        out = scratch / str(number)
        reason = _maven(coordinates, jar_set.transitive, scratch, out)
        if not reason:
            return out
    raise KafkaNotInstalled(
        f'the jars "{jar_set.name}" could not be downloaded: {reason}',
        fix="check the network and Maven's settings.xml, then: headrace kafka jars",
    )


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
