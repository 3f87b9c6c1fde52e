"""Whatever is destroyed in a data folder: it is a coded error, never a traceback and never other rows."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import TopicSpec
from headrace.errors import DamagedExtent, DamagedLog, HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.check import check
from headrace.schema import Schema
from headrace.settings import Settings, Size
from tests.unit.log.embedded.data_folder import put

SETTINGS = Settings.of(
    storage_inline_bytes=Size(2_000), storage_maintenance_interval=timedelta(0), storage_file_delete_delay=timedelta(0)
)
_ROUNDS, _SEED = (int(os.environ.get(name, value)) for name, value in (("ROUNDS", "40"), ("SEED", "7")))
Rows = dict[tuple[str, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inline, file, merged, compacted and archived extents."""
    folder = tmp_path_factory.mktemp("sound") / "data"
    with EmbeddedLog(folder, SETTINGS) as log:
        log.create_topic("a", TopicSpec(partitions=2))
        log.create_topic("kept", TopicSpec(archive=True, retention_bytes=Size(2_000)))
        log.create_topic("latest", TopicSpec(compact=True, schema=Schema.parse("id bigint key, name string")))
        for number in range(20):
            put(log, "a", *(b"%d" % i for i in range(number * 3)), b"x")
            put(log, "kept", b"y" * 300)
        put(log, "a", b"z" * 5_000)
        log.maintenance.run()
        for number in range(5):
            put(log, "a", b"%d" % number)
    return folder


def read_all(folder: Path) -> Rows:
    with EmbeddedLog(folder, SETTINGS) as log:
        return {
            (topic.name, partition): log.read(
                topic.name, partition, bounds.start, max_records=1_000_000
            ).rows.to_pylist()
            for topic in log.topics()
            for partition, bounds in log.bounds(topic.name).items()
        }


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _zero_pages(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(path.stat().st_size - 4096))


DATABASE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zero pages": _zero_pages,
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(20_000)),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a folder": _directory,
}


@pytest.mark.parametrize("damage", DATABASE.values(), ids=DATABASE)
def test_a_damaged_database_is_refused_with_the_cure(damage: Callable[[Path], object], folder: Path) -> None:
    damage(folder / "log.db")
    assert check(folder).damage
    with pytest.raises(DamagedLog) as refused:
        read_all(folder)
    assert "storage check" in (refused.value.fix or "")
    assert check(folder).damage  # opening it has not replaced it


def test_rows_that_were_durable_and_are_gone_are_noticed(folder: Path) -> None:
    kept = (folder / "log.db").read_bytes()
    with EmbeddedLog(folder, SETTINGS) as log:
        put(log, "a", b"durable")
    (folder / "log.db").write_bytes(kept)
    assert [finding.kind for finding in check(folder).damage] == ["sequences"]
    with pytest.raises(DamagedLog, match="were stored"):
        read_all(folder)


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_a_missing_or_damaged_extent_is_a_coded_error(suffix: str, folder: Path) -> None:
    path = next(folder.glob(f"*/*.{suffix}"))
    for content in (path.read_bytes()[:100], b"", None):
        path.unlink() if content is None else path.write_bytes(content)
        assert check(folder).damage
        with pytest.raises(DamagedExtent):
            read_all(folder)


def test_damage_at_random_is_found_or_changes_nothing(sound: Path, tmp_path: Path) -> None:
    chance, expected = random.Random(_SEED), read_all(sound)
    files = [p.relative_to(sound) for p in sorted(sound.rglob("*")) if p.suffix in (".db", ".arrow", ".parquet")]
    weights = [10 if path.name == "log.db" else 1 for path in files]
    found = 0
    for number in range(_ROUNDS):
        folder = tmp_path / str(number)
        shutil.copytree(sound, folder)
        (chosen,) = chance.choices(files, weights)
        _destroy(folder / chosen, chance)
        damaged = bool(check(folder).damage)
        found += damaged
        try:
            rows = read_all(folder)
        except HeadraceError:
            assert damaged, (number, chosen)
        else:
            assert damaged or rows == expected, (number, chosen)
        shutil.rmtree(folder)
    assert found > _ROUNDS // 4


def _destroy(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if chance.random() < 0.2:
        del content[chance.randrange(len(content)) :]
    else:
        for _ in range(chance.choice((1, 1, 3))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
