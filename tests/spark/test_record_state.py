"""State of record mode in Spark: every access path, and a checkpoint as `headrace state show` displays it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from typer.testing import CliRunner

from headrace import cli
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.record.shuffle.key_group_ids import spark_hash
from headrace.engine.record.state import KeyGroupState
from headrace.engine.record.state_reader import StateEntry, find_checkpoint, find_entries, store_summaries
from headrace.engine.spark import state_client
from headrace.engine.spark.state_storage import Address
from tests.ksql_strategies import planned
from tests.spark.conftest import drain

SIZES = (0, 1, 5_000, 70_000, 1_000_000)  # about the buffers of the connection, and above


class Shelving(StatefulProcessor):
    """Writes by one way, reads by both, batch by batch."""

    def init(self, handle: Any) -> None:
        self._map = handle.getMapState("buckets", state_client.KEY_SCHEMA, state_client.VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        batch = max(int(frame["batch"].max()) for frame in rows)
        ways = [state_client.PipelinedStateStorage(self._map), state_client.ClientStateStorage(self._map)]
        ways[batch % 2].write((address(n), content(n, batch)) for n in range(200))
        found = [way.read([*map(address, range(200)), ("none", 0)]) for way in ways]
        assert found[0] == found[1] == [*(content(n, batch) for n in range(200)), None]
        ways[batch % 2].write((address(n), None) for n in range(0, 200, 2))
        left = ways[1 - batch % 2].read([*map(address, range(200))])
        assert left == [None if n % 2 == 0 else content(n, batch) for n in range(200)]
        assert isinstance(state_client.MapStateStorage(self._map)._storage, state_client.PipelinedStateStorage)
        state = KeyGroupState(state_client.MapStateStorage(self._map), key_group=0)
        store = state.store("counts")
        for number in range(2000):
            store[(f"key-{number}",)] = store.get((f"key-{number}",), 0) + 1
        state.save()
        yield pd.DataFrame({"count": [store[("key-7",)]]})

    def close(self) -> None:
        """Nothing to close."""


def address(number: int) -> Address:
    return f"störe-{number % 3}", number


def content(number: int, batch: int) -> bytes:
    return bytes([number, batch]) * (SIZES[number % 5] // 2 if number < 10 else number)


def test_key_groups_are_partitioned_by_sparks_hash(spark: SparkSession) -> None:
    rows = spark.range(-50, 50).selectExpr("cast(id as int) as page", "hash(cast(id as int)) as hash").collect()
    assert [row.hash for row in rows] == [spark_hash(row.page) for row in rows]


def test_both_state_clients_read_the_same_state(spark: SparkSession, tmp_path: Path) -> None:
    found: list[int] = []
    for batch in range(3):
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        pd.DataFrame({"page": [0], "batch": [batch]}).to_parquet(folder / f"{batch}.parquet")
        rows = spark.readStream.schema("page long, batch long").parquet(str(folder)).groupBy("page")
        made = rows.transformWithStateInPandas(Shelving(), "count long", "append", "none")
        drain(made, lambda frame, _: found.extend(row[0] for row in frame.collect()), tmp_path / "checkpoint")
    assert found == [1, 2, 3]


class Counting(StatefulProcessor):
    """A key group that counts keys, in the state of the record way."""

    def init(self, handle: Any) -> None:
        self._map = handle.getMapState("buckets", state_client.KEY_SCHEMA, state_client.VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        state = KeyGroupState(state_client.MapStateStorage(self._map), key_group=int(key[0]))
        for page in (page for frame in rows for page in frame["name"]):
            groups = state.store("0-aggregate/groups")
            groups[(page,)] = [groups.get((page,), [0])[0] + 1]
            state.store("0-aggregate/clock")["now"] = 7
        state.save()
        yield pd.DataFrame({"entries": [state.entries]})

    def close(self) -> None:
        """Nothing to close."""


QUERY = "CTAS_VISITS_1"


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two key groups: a small one in its root, a large one in buckets."""
    folder = tmp_path_factory.mktemp("state")
    checkpoint = folder / "checkpoints" / "program" / QUERY
    visits = planned("CREATE TABLE visits AS SELECT id, COUNT(*) FROM s GROUP BY id;")
    Checkpoint(checkpoint).open(visits, "record", 2, ("s",))
    names = [f"/p{number}" for number in range(1040)]
    (folder / "in").mkdir()
    pd.DataFrame({"page": [int(n >= 40) for n in range(1040)], "name": names}).to_parquet(folder / "in" / "0.parquet")
    rows = spark.readStream.schema("page long, name string").parquet(str(folder / "in")).groupBy("page")
    made = rows.transformWithStateInPandas(Counting(), "entries long", "append", "none")
    drain(made, lambda frame, _: frame.collect(), checkpoint / "spark")
    return folder


def test_summaries_cover_all_key_groups(spark: SparkSession, data: Path) -> None:
    clock, groups = store_summaries(spark, find_checkpoint(data / "checkpoints", QUERY))
    assert (clock.store, clock.entries, clock.buckets, clock.key_groups) == ("0-aggregate/clock", 2, 0, 2)
    assert (groups.store, groups.entries, groups.key_groups) == ("0-aggregate/groups", 1040, 2)
    assert groups.buckets > 1
    assert groups.bytes > 10_000


@pytest.mark.parametrize(("key", "key_group"), [("/p7", 0), ("/p700", 1)])
def test_the_entries_of_a_key_are_found(spark: SparkSession, data: Path, key: str, key_group: int) -> None:
    found = list(find_entries(spark, find_checkpoint(data / "checkpoints", QUERY), key))
    assert found == [StateEntry(key_group, "0-aggregate/groups", (key,), [1])]


def test_the_command_shows_the_state(spark: SparkSession, data: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli.app, ["--data", str(data), "state", "show", *words], prog_name="headrace")
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    assert [store["entries"] for store in json.loads(run(QUERY, "--json"))] == [2, 1040]
    assert "1,040" in run(QUERY.lower())
    assert json.loads(run(QUERY, "/p7", "--json")) == [
        {"key_group": 0, "store": "0-aggregate/groups", "key": ["/p7"], "value": [1]}
    ]
    assert "('/p7',)" in run(QUERY, "/p7")
    assert "unknown-query" in run("NOTHING", code=1)
