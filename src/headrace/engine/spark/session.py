"""Creates the Spark session: small on one machine, in UTC, with state in RocksDB, and quiet."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.engine.spark.class_archive import ClassArchive, create_class_archive, scratch_folder
from headrace.engine.spark.failures import is_spark_gone
from headrace.engine.spark.python_processes import python_executable
from headrace.errors import MissingDependency, ProcessLost
from headrace.import_path import SAFE, safe_children
from headrace.settings import Settings

_PATIENCE = 10.0  # seconds
_LOGGING = Path(__file__).with_name("log4j2.properties").resolve()
_JAVA = "-XX:+ExitOnOutOfMemoryError"  # after running out of memory, Java may hang and still look busy
_COLLECTOR = "-XX:+UseParallelGC"  # Java's default is for large heaps: here it takes a sixth of a query's time
_GIVEN = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Why each of these is set, and not left at Spark's default:
CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",  # times in the log are UTC
    "spark.driver.host": "127.0.0.1",  # loopback only, whatever the host's name resolves to
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.variable.substitute": "false",  # else '${env:NAME}' in a statement reveals environment variables
    "spark.ui.enabled": "false",  # an unneeded port
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # a second attempt of a task must not write concurrently with the first
    # The default starts a process for every file, to set its permissions: a third of a small batch's time.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.python.daemon.module": "headrace.engine.spark.daemon",  # workers with their modules imported
    # Over TCP, every task waits some 40 ms for its input: small writes are delayed until earlier ones are acknowledged.
    "spark.python.unix.domain.socket.enabled": "true",
    **{f"spark.executorEnv.{name}": value for name, value in SAFE.items()},  # no imports from the working folder
    "spark.python.worker.reuse": "true",  # mapped files and connections stay open in the workers
    # A batch for Python is bounded by its rows. Spark would recount its bytes for every row, walking through all lists
    # that are null: that takes a third of the time, and with null lists a hundred times as long.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # costs a read per write
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # time is input: an idle query does nothing
    "spark.sql.streaming.minBatchesToRetain": "20",  # older ones are never used; each has files in every store
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "headrace-warehouse"),
}

# The embedded log's source blocks until there is input; Kafka's is polled, each time with a request.
_ON_KAFKA: Mapping[str, str] = {"spark.sql.streaming.pollingDelay": "200ms"}


def spark_session(
    settings: Settings, name: str = "headrace", *, jars: Sequence[Path] = (), conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The process's Spark session, created on first use."""
    # Without these Spark's workers run whatever "python3" is first on the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_executable(Path(_sockets()))
    # Everything below uses loopback; Spark would otherwise look for, and warn about, an external address.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(settings.spark.master)
    for key, value in {**CONF, **_sized(settings), **(conf or {})}.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    try:
        with safe_children():  # for Python processes that Spark starts without the environment of its conf
            return builder.getOrCreate()
    except Exception as error:
        if is_spark_gone(error) or _has_ended_early(error):
            raise ProcessLost(
                "the Spark process ended", fix="start it again and it resumes from its checkpoint"
            ) from error
        raise MissingDependency(
            f"Spark did not start: {str(error).splitlines()[0]}", fix="`headrace doctor` shows what is missing"
        ) from error


def _has_ended_early(error: Exception) -> bool:
    """Whether Java exists, but its process ended before it was ready: killed, for example, or out of memory."""
    home = os.environ.get("JAVA_HOME")
    return "JAVA_GATEWAY_EXITED" in str(error) and shutil.which("java", path=home and f"{home}/bin") is not None


def stop_spark() -> None:
    """Stops Spark's process, if this one has started it, and waits: it then removes its temporary files."""
    gateway = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the signal to stop
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)


def archive_classes(settings: Settings) -> bool:
    """Make the archive of Java's classes, with which the next Spark process starts faster, unless it exists."""
    process = getattr(SparkContext._gateway, "proc", None)  # pyright: ignore[reportPrivateUsage]
    return process is not None and create_class_archive(settings.spark.class_archives, process.pid)


def spark_has_stopped() -> bool:
    """Whether this process has started Spark's process, and that has ended."""
    process = getattr(SparkContext._gateway, "proc", None)  # pyright: ignore[reportPrivateUsage]
    return process is not None and process.poll() is not None


@cache
def _sockets() -> str:
    """A private folder for this process's sockets to Spark's workers."""
    folder = tempfile.mkdtemp(prefix="headrace-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def java_options(environ: Mapping[str, str]) -> str:
    """Java options for Spark's process.

    Java refuses to start with two garbage collectors: one named in the environment wins. Java's other temporary files
    go into Spark's local folder.
    """
    given_options = " ".join(environ.get(name, "") for name in _GIVEN)
    local = scratch_folder(environ)
    return " ".join(
        [
            _JAVA,
            *([] if re.search(r"-XX:\+Use\w+GC\b", given_options) else [_COLLECTOR]),
            *([f'"-Djava.io.tmpdir={local}"'] if local else []),
        ]
    )


def _archive_options(settings: Settings) -> list[str]:
    archive = ClassArchive.locate(settings.spark.class_archives)
    return [] if archive is None else archive.options(scratch_folder())


def _sized(settings: Settings) -> dict[str, str]:
    return {
        "spark.python.unix.domain.socket.dir": _sockets(),
        "spark.driver.memory": f"{settings.spark.driver_memory >> 20}m",
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", java_options(os.environ), *_archive_options(settings)]
        ),
        "spark.sql.shuffle.partitions": str(settings.spark.shuffle_partitions),
        **(_ON_KAFKA if settings.storage.log == "kafka" else {}),
    }
