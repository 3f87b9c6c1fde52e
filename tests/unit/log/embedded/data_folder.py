"""Rows, processes and looks into the folder that these tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from headrace.contracts import Append, Batch
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record

LARGE = b"x" * 200_000


def raw(*values: bytes | None, key: bytes | None = None) -> pa.RecordBatch:
    return from_records([Record(value, key) for value in values])


def put(log: EmbeddedLog, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    log.append([Append(topic, raw(*values, key=key))])


def read(log: EmbeddedLog, topic: str, partition: int = 0) -> Batch:
    return log.read(topic, partition, log.bounds(topic)[partition].start, max_records=1_000_000)


def values(log: EmbeddedLog, topic: str, partition: int = 0) -> list[bytes | None]:
    return read(log, topic, partition).rows.column("value").to_pylist()


def offsets(log: EmbeddedLog, topic: str) -> list[int]:
    return read(log, topic).rows.column("$offset").to_pylist()


def extents(log: EmbeddedLog, *, live: bool = True) -> list[tuple[str, int]]:
    """Kind and row count of extents in the commit log."""
    where = "WHERE replaced_at IS NULL" if live else ""
    return log.store.query(f"SELECT kind, rows FROM extents {where} ORDER BY topic, partition, last_offset")


def files(folder: Path) -> set[str]:
    return {p.name for name in ("extents", "archive") for p in (folder / name).iterdir()}


@contextmanager
def process(code: str, *arguments: object, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `code`; ended with the block."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str], text: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(text + "\n")
    child.stdin.flush()
