"""Checks of `headrace doctor`: each is a function of the settings that yields results."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from headrace.errors import HeadraceError, KafkaJarMismatch, KafkaNotInstalled
from headrace.private_folder import open_to_others
from headrace.settings import Settings, size_text

OK, WARN, FAIL = "ok", "warn", "fail"
_GB = 1 << 30
_OLDEST_POSSIBLE = 1_735_689_600  # 2025-01-01: a clock that shows an earlier time was never set
_WAL_LIMIT = 256 << 20


@dataclass(frozen=True)
class CheckResult:
    check: str
    state: str
    found: str
    fix: str = ""


Check = Callable[[Settings], Iterator[CheckResult]]


def check_python(settings: Settings) -> Iterator[CheckResult]:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    yield CheckResult("python", OK if fine else FAIL, version, "" if fine else "install Python 3.11 or later")


def check_java(settings: Settings) -> Iterator[CheckResult]:
    fix = "apt-get install openjdk-17-jre-headless"
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        yield CheckResult("java", FAIL, f"not found{f' in JAVA_HOME={home}' if home else ''}; Spark needs it", fix)
        return
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=30)
    match = re.search(r'version "(\d+)[^"]*"', done.stderr + done.stdout)
    if match is None:
        yield CheckResult("java", FAIL, f"{program} does not report its version", fix)
    elif int(match.group(1)) < 17:
        yield CheckResult("java", FAIL, f"{match.group()}, too old", fix)
    else:
        yield CheckResult("java", OK, match.group())


def check_memory(settings: Settings) -> Iterator[CheckResult]:
    try:
        text = Path("/proc/meminfo").read_text()
        free = int(re.findall(r"MemAvailable:\s+(\d+) kB", text)[0]) << 10
    except (OSError, IndexError):
        yield CheckResult("memory", WARN, "unknown on this system")
        return
    driver_memory = settings.spark.driver_memory
    summary = f"{size_text(free)} free, Spark uses up to {size_text(driver_memory)}"
    yield (
        CheckResult("memory", OK, summary)
        if free >= driver_memory
        else CheckResult("memory", WARN, summary, "lower spark.driver_memory")
    )


def check_disk(settings: Settings) -> Iterator[CheckResult]:
    place = _existing(settings.storage.data)
    free = shutil.disk_usage(place).free
    state = OK if free > _GB else WARN if free > _GB // 10 else FAIL
    yield CheckResult("disk", state, f"{size_text(free)} free at {place}", "" if state == OK else "free some space")
    try:
        with tempfile.TemporaryFile(dir=place):
            yield CheckResult("data folder", OK, f"{settings.storage.data} is writable")
    except OSError as error:
        fix = "change its owner or permissions, or use another folder with --data"
        yield CheckResult("data folder", FAIL, f"{place} cannot be written: {error.strerror}", fix)


def check_data_access(settings: Settings) -> Iterator[CheckResult]:
    """Whoever can enter the data folder reads all data and, with its secret, is an admin."""
    folder = settings.storage.data
    if not folder.is_dir():
        return
    if mode := open_to_others(folder):
        problem = f"other users of this machine have access to {folder} ({mode})"
        yield CheckResult("data access", WARN, problem, f"chmod 700 {shlex.quote(str(folder))}")
    else:
        yield CheckResult("data access", OK, f"only its owner has access to {folder}")


def check_data_format(settings: Settings) -> Iterator[CheckResult]:
    from headrace.log.embedded.storage.store import foreign_files, open_folder

    mark = settings.storage.data / "FORMAT"
    if not mark.exists():
        strange = settings.storage.data.is_dir() and foreign_files(settings.storage.data)
        summary = (
            f"{settings.storage.data} is not a data folder"
            if strange
            else "no data yet; `headrace up` creates the data folder"
        )
        fix = "use another folder with --data" if strange else ""
        yield CheckResult("data format", FAIL if strange else OK, summary, fix)
        return
    try:
        open_folder(settings.storage.data)
    except HeadraceError as error:
        yield CheckResult("data format", FAIL, error.what, error.fix or "")
    else:
        yield CheckResult("data format", OK, mark.read_text().strip())


def check_log(settings: Settings) -> Iterator[CheckResult]:
    """Reads no rows: `headrace storage check` does."""
    from headrace.log.embedded.storage.damage import CHECK_OR_RESTORE, missing_database

    path = settings.storage.data / "log.db"
    problem = missing_database(settings.storage.data)
    if problem is None and not path.exists():
        return
    if problem is None:
        try:
            with closing(sqlite3.connect(path, timeout=5)) as db:
                ((verdict,),) = db.execute("PRAGMA quick_check(1)").fetchall()
            problem = None if verdict == "ok" else verdict
        except (sqlite3.Error, UnicodeDecodeError) as error:
            problem = str(error)
    yield CheckResult("log", FAIL if problem else OK, problem or "sound", CHECK_OR_RESTORE if problem else "")


def check_wal(settings: Settings) -> Iterator[CheckResult]:
    path = settings.storage.data / "log.db-wal"
    size = path.stat().st_size if path.exists() else 0
    fix = "stop the long-running reader process, then run: headrace storage compact"
    state = OK if size < _WAL_LIMIT else WARN
    yield CheckResult("write-ahead file", state, size_text(size), "" if state == OK else fix)


def check_clock(settings: Settings) -> Iterator[CheckResult]:
    now = time.time()
    if now < _OLDEST_POSSIBLE:
        yield CheckResult(
            "clock", FAIL, time.strftime("the clock shows %Y-%m-%d", time.gmtime(now)), "set the clock, use NTP"
        )
        return
    ahead = _newest(settings.storage.data / "log.db") / 1000 - now
    if ahead > 60:
        yield CheckResult(
            "clock", WARN, f"the log was last written {ahead:.0f} s in the future", "set the clock, use NTP"
        )
    else:
        yield CheckResult("clock", OK, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))


def check_spark(settings: Settings) -> Iterator[CheckResult]:
    if util.find_spec("pyspark") is None:
        yield CheckResult("spark", FAIL, "pyspark is not installed", "pip install headrace")
    else:
        yield CheckResult("spark", OK, f"pyspark {_version('pyspark')}")


def check_kafka(settings: Settings) -> Iterator[CheckResult]:
    """A missing client or jar is a failure only if the log is Kafka."""
    needed = settings.storage.log == "kafka"
    missing = FAIL if needed else WARN
    if util.find_spec("confluent_kafka") is None:
        yield CheckResult("kafka client", missing, "confluent-kafka is not installed", "pip install 'headrace[kafka]'")
    else:
        yield CheckResult("kafka client", OK, f"confluent-kafka {_version('confluent-kafka')}")
    yield _kafka_jars(settings, missing)
    yield _port(settings) if not needed else _reachable(settings)


def _kafka_jars(settings: Settings, missing: str) -> CheckResult:
    from headrace.log.kafka.jars import SETS, installed_jars

    try:
        for jar_set in SETS:
            installed_jars(jar_set, settings)
    except KafkaNotInstalled as error:
        return CheckResult("kafka jars", missing, error.what, error.fix or "")
    except KafkaJarMismatch as error:
        return CheckResult("kafka jars", FAIL, error.what, error.fix or "")
    return CheckResult("kafka jars", OK, ", ".join(one.name for one in SETS))


def _port(settings: Settings) -> CheckResult:
    with closing(socket.socket()) as probe:
        in_use = probe.connect_ex(("127.0.0.1", 9092)) == 0
    return CheckResult("port 9092", OK, "in use; `headrace kafka up` needs another --port" if in_use else "free")


def _reachable(settings: Settings) -> CheckResult:
    for server in settings.kafka.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host or server, int(port or 9092)), timeout=3):
                return CheckResult("kafka servers", OK, f"{server} is reachable")
        except (OSError, ValueError):
            continue
    fix = "start it (headrace kafka up), or set kafka.bootstrap_servers"
    return CheckResult("kafka servers", FAIL, f"{settings.kafka.bootstrap_servers} is not reachable", fix)


CHECKS: tuple[Check, ...] = (
    check_python,
    check_java,
    check_spark,
    check_memory,
    check_disk,
    check_data_access,
    check_data_format,
    check_log,
    check_wal,
    check_clock,
    check_kafka,
)


def _existing(path: Path) -> Path:
    path = path.absolute()
    return path if path.exists() else _existing(path.parent)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _newest(database: Path) -> int:
    """When the log was last written, in ms; 0 if unknown."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database, timeout=5)) as db:
            ((newest,),) = db.execute("SELECT created_at FROM extents ORDER BY id DESC LIMIT 1").fetchall() or [(0,)]
            return newest
    except (sqlite3.Error, UnicodeDecodeError, TypeError):
        return 0
