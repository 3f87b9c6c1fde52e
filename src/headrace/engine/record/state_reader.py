"""Reads a query's state from its checkpoint while it is stopped or running: the state after its last committed batch.

Nothing is written, and the query is not involved. Spark reads its own files; their content is decoded here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.checkpoint import Checkpoint, list_checkpoints
from headrace.engine.record.state import ROOT, StoreRoot
from headrace.errors import UnknownQuery
from headrace.plan.state_encoding import decode

STATE_VARIABLE = "buckets"
"""The name of the operator's state."""


@dataclass(frozen=True)
class StoreSummary:
    """The size of a store, over all key groups."""

    store: str
    entries: int
    buckets: int
    bytes: int
    key_groups: int


@dataclass(frozen=True)
class StateEntry:
    key_group: int
    store: str
    key: Any
    value: Any


def find_checkpoint(folder: Path, name: str) -> Checkpoint:
    """Finds the checkpoint of a query in a folder: by its id, or by PROGRAM/ID where several programs have it."""
    programs = sorted(path for path in folder.glob("*") if path.is_dir())
    checkpoints = {f"{path.name}/{one.folder.name}": one.folder for path in programs for one in list_checkpoints(path)}
    matching = [place for place in checkpoints if f"/{place}".casefold().endswith(f"/{name}".casefold())]
    if len(matching) == 1:
        return Checkpoint(checkpoints[matching[0]])
    known = ", ".join(matching or checkpoints)
    what = "is ambiguous" if matching else "has no checkpoint"
    raise UnknownQuery(
        f'query "{name}" {what}',
        where=str(folder),
        fix=f"name one of: {known}" if known else "start it first: `headrace run`",
    )


def store_summaries(spark: SparkSession, checkpoint: Checkpoint) -> list[StoreSummary]:
    """Summarizes each store, by name. Only the roots of key groups are read."""
    roots: defaultdict[str, list[StoreRoot]] = defaultdict(list)
    for key_group, _, _, data in _rows(spark, checkpoint, roots=True):
        for name, root in decode(data, f"key group {key_group}, root").items():
            roots[name].append(root)
    return [_summary(name, roots[name]) for name in sorted(roots)]


def _summary(name: str, parts: list[StoreRoot]) -> StoreSummary:
    entries, buckets, sizes, inlines = zip(*parts, strict=True)
    return StoreSummary(name, sum(entries), sum(buckets), sum(sizes) + sum(map(len, inlines)), len(parts))


def find_entries(spark: SparkSession, checkpoint: Checkpoint, key: str) -> Iterator[StateEntry]:
    """Finds entries with the key, or with a part of a key equal to it. Reads all buckets, one after the other."""
    candidates = key_candidates(key)
    for key_group, store, number, data in _rows(spark, checkpoint):
        for name, entries in _stores_in(key_group, (store, number), data):
            yield from (
                StateEntry(key_group, name, *item) for item in entries.items() if key_matches(item[0], candidates)
            )


def _stores_in(key_group: int, address: tuple[str, int], data: bytes) -> Iterator[tuple[str, dict[Any, Any]]]:
    store, number = address
    if address != ROOT:
        yield store, decode(data, f'key group {key_group}, store "{store}", bucket {number}')
        return
    for name, (*_, inline) in decode(data, f"key group {key_group}, root").items():
        if inline:
            yield name, decode(inline, f'key group {key_group}, store "{name}"')


def _rows(spark: SparkSession, checkpoint: Checkpoint, *, roots: bool = False) -> Iterator[tuple[int, str, int, bytes]]:
    if not (checkpoint.spark / "state").is_dir():
        return  # a stateless query, or one before its first commit
    rows = _table(spark, checkpoint)
    if roots:
        rows = rows.where((rows["store"] == ROOT[0]) & (rows["bucket"] == ROOT[1]))
    for row in rows.toLocalIterator():
        yield row.page, row.store, row.bucket, bytes(row.data)


def _table(spark: SparkSession, checkpoint: Checkpoint) -> DataFrame:
    _ = spark.streams.active  # creates the listener that state readers report to
    reader = spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
    return reader.load(str(checkpoint.spark)).select(
        "key.page", "user_map_key.store", "user_map_key.bucket", "user_map_value.data"
    )


# -- keys as users write them ----------------------------------------------------------------------------------------


def key_candidates(text: str) -> list[Any]:
    """The keys that a text may stand for: the text itself, or its value as JSON."""
    try:
        return [text, _tuples(orjson.loads(text))]
    except orjson.JSONDecodeError:
        return [text]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def key_matches(key: Any, candidates: list[Any]) -> bool:
    return key in candidates or (isinstance(key, tuple) and any(key_matches(part, candidates) for part in key))
