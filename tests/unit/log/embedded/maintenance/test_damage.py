"""Whatever is destroyed in a data folder: it is a coded error, never a traceback and never other rows."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import TopicSpec
from headrace.errors import DamagedExtent, DamagedLog, HeadraceError, LogBusy, NotRepairable, RecordsLost
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.check import CheckFinding, check
from headrace.log.embedded.maintenance.repair import exclusive, plan, repair
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


def _repaired(folder: Path, *, skip_lost: bool) -> list[CheckFinding]:
    with exclusive(folder):
        return repair(folder, skip_lost=skip_lost)


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_repair_marks_damaged_rows_as_lost_and_keeps_all_others(suffix: str, is_gone: bool, folder: Path) -> None:
    before = read_all(folder)
    path = sorted(folder.glob(f"*/*.{suffix}"), key=lambda one: one.stat().st_size)[0]
    path.unlink() if is_gone else path.write_bytes(b"damaged" * 20)
    assert _repaired(folder, skip_lost=False) == []
    assert is_gone or (folder / "damaged" / path.name).read_bytes() == b"damaged" * 20
    with pytest.raises(RecordsLost, match="were lost to damage"):
        read_all(folder)
    assert {finding.kind for finding in check(folder).findings} == {"lost"}
    assert _repaired(folder, skip_lost=True) == []
    after = read_all(folder)
    assert after != before
    assert all(row in before[place] for place, rows in after.items() for row in rows)
    with EmbeddedLog(folder, SETTINGS) as log:  # the log goes on, and maintains itself
        put(log, "a", b"new")
        put(log, "kept", b"new" * 300)
        log.maintenance.run(force_compaction=True)
        for topic in ("a", "kept"):
            log.truncate(topic, 0, log.bounds(topic)[0].end)
    assert check(folder).damage == []


def test_an_inline_extent_is_kept_aside(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "log.db")) as db, db:
        db.execute("UPDATE extents SET checksum = checksum + 1 WHERE id = (SELECT max(id) FROM extents)")
    assert _repaired(folder, skip_lost=True) == []
    assert list((folder / "damaged").glob("extent-*.arrow"))
    read_all(folder)


def test_a_database_with_damaged_indexes_is_rebuilt(folder: Path) -> None:
    before = read_all(folder)
    _damage_index(folder / "log.db")
    assert check(folder).damage
    assert _repaired(folder, skip_lost=False) == []
    assert read_all(folder) == before
    assert (folder / "damaged" / "log.db").exists()


@pytest.mark.parametrize("renames", range(4))
def test_a_repair_that_ended_between_its_renames_is_finished(
    folder: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    before = read_all(folder)
    _damage_index(folder / "log.db")
    Path(folder / "log.db-wal").touch()
    rename, done = Path.rename, itertools.count()

    def crashing(path: Path, target: Path) -> Path:
        if next(done) == renames:
            raise CrashError
        return rename(path, target)

    with monkeypatch.context() as patched, suppress(CrashError):
        patched.setattr(Path, "rename", crashing)
        _repaired(folder, skip_lost=False)
    with exclusive(folder):
        _planned_repair(folder)
    assert check(folder).damage == []
    assert read_all(folder) == before


class CrashError(Exception):
    pass


def test_a_repair_of_groups_that_ended_between_its_renames_is_finished(folder: Path) -> None:
    read_all(folder)
    (folder / "groups.db").rename(folder / "groups.db.rebuilt")
    with exclusive(folder):
        assert [step.where for step in plan(folder, check(folder).findings, skip_lost=False)] == [
            str(folder / "groups.db")
        ]
        assert repair(folder, skip_lost=False) == []
    assert (folder / "groups.db").exists()


def test_a_rebuilt_database_that_is_not_complete_is_not_used(folder: Path) -> None:
    (folder / "log.db").rename(folder / "log.db.rebuilt")
    (folder / "log.db.rebuilt-journal").touch()
    with exclusive(folder), pytest.raises(NotRepairable, match="missing"):
        _planned_repair(folder)


def _damage_index(path: Path) -> None:
    """Overwrites the first page of an index."""
    with closing(sqlite3.connect(path)) as db:
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'extents_by_offset'").fetchall()
        ((size,),) = db.execute("PRAGMA page_size").fetchall()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("damage", DATABASE.values(), ids=DATABASE)
def test_a_database_that_cannot_be_read_is_not_guessed(damage: Callable[[Path], object], folder: Path) -> None:
    damage(folder / "log.db")
    with exclusive(folder), pytest.raises(NotRepairable, match="cannot be repaired"):
        _planned_repair(folder)


def _planned_repair(folder: Path) -> None:
    plan(folder, check(folder).findings, skip_lost=False)
    repair(folder, skip_lost=False)


def test_a_folder_in_use_is_not_repaired(folder: Path) -> None:
    with EmbeddedLog(folder, SETTINGS), pytest.raises(LogBusy, match="use the data folder"):
        _repaired(folder, skip_lost=False)


def test_lost_rows_are_accepted_by_a_repair(folder: Path) -> None:
    kept, rows = (folder / "log.db").read_bytes(), read_all(folder)
    with EmbeddedLog(folder, SETTINGS) as log:
        put(log, "a", b"durable")
    (folder / "log.db").write_bytes(kept)
    assert _repaired(folder, skip_lost=False) == []
    assert read_all(folder) == rows


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
