"""Table `engine`: every shape has the same rows, the statements are KSQL, and wrong results are detected."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bench.tables import engine_queries, engine_results, table
from bench.tables.engine_rows import FILLERS, LEAST, clicks, expected, raw, write_parquet

from headrace.log.embedded import EmbeddedLog
from headrace.testing.world import World

ROWS, USERS = 2_000, 50
QUERIES = ("filter", "keyed", "windowed", "count", "pass", "latest")


def test_rows_are_the_same_in_every_shape(tmp_path: Path) -> None:
    (typed,) = clicks(ROWS, USERS)
    files = pq.read_table(write_parquet(tmp_path / "files", ROWS, USERS)).to_pylist()
    values = [json.loads(value) for value in raw(typed).column("value").to_pylist()]
    assert [row["amount"] for row in typed.to_pylist()] == [row["amount"] for row in files]
    assert [(row["page"], row["amount"]) for row in typed.to_pylist()] == [tuple(row.values()) for row in values]
    assert raw(typed).column("key").to_pylist() == [row["user"].encode() for row in files]
    assert [round(row["at"].timestamp() * 1000) for row in files] == typed.column("$timestamp").to_pylist()


def test_a_filter_keeps_a_tenth() -> None:
    kept = expected("filter", ROWS, USERS)
    assert kept == sum(row["amount"] > LEAST for batch in clicks(ROWS, USERS) for row in batch.to_pylist())
    assert 0.05 < kept / ROWS < 0.2


@pytest.mark.parametrize("query", QUERIES)
def test_statements_give_their_expected_results(query: str) -> None:
    """In memory: the canonical meaning of the statements that the sides are measured on."""
    world = World(live=True)
    world.execute(engine_queries.script(query, "clicks", "results"))
    (rows,) = clicks(ROWS, USERS)
    columns = (raw(rows).column(name).to_pylist() for name in ("key", "value", "$timestamp"))
    for key, value, at in zip(*columns, strict=True):
        world.produce("clicks", key, value, at)
    written = [(entry.key, _small(entry.value)) for entry in world.topics["results"]]
    wanted = ROWS if query == "pass" else expected(query, ROWS, USERS)
    engine_results.check(query, written, wanted)
    with pytest.raises(RuntimeError, match="come to"):
        engine_results.check(query, written[:-1] if query in ("filter", "pass") else written[:-USERS], wanted)


@pytest.mark.parametrize("shape", FILLERS)
def test_results_are_read_from_a_log(shape: str, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        FILLERS[shape](log, "clicks", ROWS, USERS)
        found = list(engine_results.in_log(log, "clicks"))
    (rows,) = clicks(ROWS, USERS)
    assert [row["amount"] for _, row in found] == rows.column("amount").to_pylist()
    assert len({key for key, _ in found}) == USERS


def test_every_case_has_a_memory_limit() -> None:
    settings = (Path(engine_queries.__file__).parents[1] / "settings" / "engine.toml").read_text()
    assert settings.count("peak_private_mb <") == len(table("engine").cases)


def _small(value: bytes | None) -> dict[str, object]:
    return {name.lower(): field for name, field in json.loads(value or b"{}").items()}
