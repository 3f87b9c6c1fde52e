"""What a query remembers, read from its checkpoint while it is stopped or running: the state of its last whole batch.

Nothing is written, and the query is not asked. Spark reads its own files; what lies in them is decoded here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.checkpoint import Checkpoint, checkpoints
from headrace.engine.record.buckets import ROOT, Known
from headrace.errors import UnknownQuery
from headrace.plan.encoding import decode

STATE = "buckets"
"""The name of the operator's state."""


@dataclass(frozen=True)
class Holding:
    """How much a store holds, over all pages."""

    store: str
    entries: int
    buckets: int
    bytes: int
    pages: int


@dataclass(frozen=True)
class Entry:
    page: int
    store: str
    key: Any
    value: Any


def find(folder: Path, name: str) -> Checkpoint:
    """The checkpoint of a query under a folder of checkpoints: by its id, or by PROGRAM/ID where several have it."""
    programs = sorted(path for path in folder.glob("*") if path.is_dir())
    there = {f"{path.name}/{one.folder.name}": one.folder for path in programs for one in checkpoints(path)}
    fitting = [place for place in there if f"/{place}".casefold().endswith(f"/{name}".casefold())]
    if len(fitting) == 1:
        return Checkpoint(there[fitting[0]])
    known = ", ".join(fitting or there)
    what = "names several queries" if fitting else "has left no checkpoint"
    raise UnknownQuery(
        f'query "{name}" {what}',
        where=str(folder),
        fix=f"name one of: {known}" if known else "run it first: `headrace run`",
    )


def holdings(spark: SparkSession, checkpoint: Checkpoint) -> list[Holding]:
    """What lies in each store, by name. Only the pages' roots are read."""
    found: defaultdict[str, list[Known]] = defaultdict(list)
    for page, _, _, data in _rows(spark, checkpoint, roots=True):
        for name, known in decode(data, f"page {page}, root").items():
            found[name].append(known)
    return [_holding(name, found[name]) for name in sorted(found)]


def _holding(name: str, parts: list[Known]) -> Holding:
    entries, buckets, sizes, inlines = zip(*parts, strict=True)
    return Holding(name, sum(entries), sum(buckets), sum(sizes) + sum(map(len, inlines)), len(parts))


def entries(spark: SparkSession, checkpoint: Checkpoint, key: str) -> Iterator[Entry]:
    """Entries that have the key, or a part of theirs that is it. All buckets are read, one after the other."""
    wanted = meanings(key)
    for page, store, number, data in _rows(spark, checkpoint):
        for name, held in _held(page, (store, number), data):
            yield from (Entry(page, name, *item) for item in held.items() if mentions(item[0], wanted))


def _held(page: int, address: tuple[str, int], data: bytes) -> Iterator[tuple[str, dict[Any, Any]]]:
    store, number = address
    if address != ROOT:
        yield store, decode(data, f'page {page}, store "{store}", bucket {number}')
        return
    for name, (*_, inline) in decode(data, f"page {page}, root").items():
        if inline:
            yield name, decode(inline, f'page {page}, store "{name}"')


def _rows(spark: SparkSession, checkpoint: Checkpoint, *, roots: bool = False) -> Iterator[tuple[int, str, int, bytes]]:
    if not (checkpoint.spark / "state").is_dir():
        return  # a query that keeps nothing, or has not ended its first batch
    rows = _table(spark, checkpoint)
    if roots:
        rows = rows.where((rows["store"] == ROOT[0]) & (rows["bucket"] == ROOT[1]))
    for row in rows.toLocalIterator():
        yield row.page, row.store, row.bucket, bytes(row.data)


def _table(spark: SparkSession, checkpoint: Checkpoint) -> DataFrame:
    _ = spark.streams.active  # what reads the state reports to somebody who comes into being with the streams
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    return reader.load(str(checkpoint.spark)).select(
        "key.page", "user_map_key.store", "user_map_key.bucket", "user_map_value.data"
    )


# -- keys as people write them --------------------------------------------------------------------------------------


def meanings(text: str) -> list[Any]:
    """What a key may be that is written so: the text, or what it means as JSON."""
    try:
        return [text, _tuples(orjson.loads(text))]
    except orjson.JSONDecodeError:
        return [text]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def mentions(key: Any, wanted: list[Any]) -> bool:
    return key in wanted or (isinstance(key, tuple) and any(mentions(part, wanted) for part in key))
