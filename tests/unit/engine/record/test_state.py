"""The hash of keys, how stores grow, and what a batch reads and writes."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from headrace.engine.record import state as state_module
from headrace.engine.record.state import ROOT, KeyGroupState, stable_hash
from headrace.errors import StateUnreadable
from headrace.plan.state_encoding import unpacked_size
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage
from tests.unit.engine.record.state_values import keys

# Places are as lasting as the bytes: an entry is looked for where it was put by whichever version.
PLACES: dict[Any, int] = {
    None: 0,
    "": 0,
    "text": 999008199,
    "ä€": 3593337472,
    "\ud800": 499426600,
    b"bytes": 2979611598,
    0: 1696784233,
    1: 2844319735,
    -1: 3991854978,
    1.5: 3024080787,
    1180591620717411303424: 4072525376,
    Decimal("2.50"): 984664176,
    (): 0,
    ("a",): 2679148245,
    ("a", "b"): 512829590,
    ("b", "a"): 3098834592,
    (("a",), 1, None): 3939928791,
    (1, 2): 538004427,
}


def filled(storage: MemoryStateStorage, count: int, start: int = 0, value: Any = 0) -> KeyGroupState:
    state = KeyGroupState(storage, key_group=0)
    store = state.store("groups")
    for number in range(start, start + count):
        store[(f"/page/{number}",)] = [number, value]
    state.save()
    return state


# -- places ---------------------------------------------------------------------------------------------------------


@given(keys)
def test_equal_keys_have_equal_hashes(key: Any) -> None:
    assert stable_hash(key) == stable_hash(_other_form(key))


def _other_form(key: Any) -> Any:
    """An equal key made of other types."""
    if isinstance(key, tuple):
        return tuple(map(_other_form, key))
    if isinstance(key, bool):
        return Decimal(int(key))
    if isinstance(key, int) and abs(key) < 1 << 50:
        return float(key)
    if isinstance(key, float) and key.is_integer():
        return int(key)
    return key


@pytest.mark.parametrize("keys", [(1, 1.0, True, Decimal(1), Decimal("1.00")), (0, 0.0, -0.0, False, Decimal("-0"))])
def test_equal_numbers_have_equal_hashes(keys: tuple[Any, ...]) -> None:
    assert len({stable_hash(key) for key in keys}) == 1
    assert len({stable_hash((key, "x")) for key in keys}) == 1


def test_hashes_never_change() -> None:
    assert {key: stable_hash(key) for key in PLACES} == PLACES


def test_another_process_computes_the_same_hashes() -> None:
    program = "from headrace.engine.record.state import stable_hash\nfrom decimal import Decimal\nimport sys\n"
    program += "print([stable_hash(key) for key in eval(sys.argv[1])])"
    found = {
        subprocess.run(
            [sys.executable, "-c", program, repr(list(PLACES))],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {str(list(PLACES.values()))}


# -- growth ---------------------------------------------------------------------------------------------------------


def test_a_small_store_costs_one_read_and_one_write() -> None:
    storage = MemoryStateStorage()
    filled(storage, 20)
    assert set(storage) == {ROOT}
    storage.reads = storage.writes = 0
    filled(storage, 5)
    assert (storage.reads, storage.writes) == (1, 0)  # nothing differs from what was there
    filled(storage, 1, value=1)
    assert (storage.reads, storage.writes) == (2, 1)


def test_buckets_are_added_one_by_one_and_stay_full() -> None:
    storage = MemoryStateStorage()
    counts = []
    for start in range(0, 8_000, 100):
        storage.writes = 0
        state = filled(storage, 100, start)
        shape = state.store("groups").shape
        counts.append(shape.buckets)
        # What was touched, what was split off from that, and the root.
        assert storage.writes <= 100 + 3 * max(1, counts[-1] - counts[-2] if len(counts) > 1 else 0) + 1
    assert counts == sorted(counts)
    assert max(after - before for before, after in pairwise(counts)) <= 3
    sizes = [unpacked_size(data) for address, data in storage.items() if address != ROOT]
    assert 0.5 * state_module.BUCKET_BYTES < sum(sizes) / len(sizes) < 2 * state_module.BUCKET_BYTES
    assert max(sizes) < 5 * state_module.BUCKET_BYTES


def test_heavy_values_get_buckets_of_their_own() -> None:
    storage = MemoryStateStorage()
    filled(storage, 20, value="x" * state_module.BUCKET_BYTES)
    shape = filled(storage, 1, value="x" * state_module.BUCKET_BYTES).store("groups").shape
    assert shape.buckets >= 15
    assert shape.size == sum(unpacked_size(data) for address, data in storage.items() if address != ROOT)


def test_many_new_entries_are_distributed_in_one_write() -> None:
    storage = MemoryStateStorage()
    shape = filled(storage, 20_000).store("groups").shape
    assert len(storage) == storage.writes == shape.buckets + 1
    assert dict(KeyGroupState(storage).store("groups")) == {(f"/page/{n}",): [n, 0] for n in range(20_000)}


def test_an_empty_store_deletes_its_buckets() -> None:
    storage = MemoryStateStorage()
    filled(storage, 5000)
    state = KeyGroupState(storage)
    state.store("groups").clear()
    state.save()
    assert not storage
    assert filled(storage, 5).entries == 5
    assert set(storage) == {ROOT}


# -- reading --------------------------------------------------------------------------------------------------------


def test_a_few_keys_read_a_few_buckets() -> None:
    storage = MemoryStateStorage()
    state = filled(storage, 50_000)
    count = state.store("groups").shape.buckets
    storage.reads = 0
    store = KeyGroupState(storage, touches=5).store("groups")
    assert [store.get((f"/page/{number}",)) for number in range(5)] == [[number, 0] for number in range(5)]
    assert storage.reads <= 1 + 5 < count


def test_a_batch_of_many_keys_reads_the_store_at_once() -> None:
    storage = MemoryStateStorage()
    count = filled(storage, 50_000).store("groups").shape.buckets
    storage.reads = 0
    KeyGroupState(storage, touches=10_000).store("groups").get(("/page/1",))
    assert storage.reads == 1 + count


def test_a_batch_that_touches_all_keys_has_a_bounded_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStateStorage()
    filled(storage, 5_000)
    monkeypatch.setattr(state_module, "MAX_CACHED_BYTES", 30_000)
    state = KeyGroupState(storage, touches=5_000)
    store = state.store("groups")
    most = 0
    for number in range(5_000):
        store[(f"/page/{number}",)] = [number, 1]
        most = max(most, sum(bucket.size for bucket in store._loaded.values()))
    state.save()
    assert most < 30_000 + 5 * state_module.BUCKET_BYTES
    assert dict(KeyGroupState(storage).store("groups")) == {(f"/page/{n}",): [n, 1] for n in range(5_000)}


# -- values that are changed in place -------------------------------------------------------------------------------


def test_a_value_changed_in_place_is_written_when_it_is_set_again() -> None:
    storage = MemoryStateStorage()
    filled(storage, 3)
    state = KeyGroupState(storage)
    store = state.store("groups")
    value = store.get(("/page/1",))
    store[("/page/1",)] = value
    value.append("later")  # still this batch's
    state.save()
    assert KeyGroupState(storage).store("groups")[("/page/1",)] == [1, 0, "later"]


def test_a_value_changed_in_place_but_not_set_is_not_written() -> None:
    storage = MemoryStateStorage()
    filled(storage, 3)
    before = dict(storage)
    state = KeyGroupState(storage)
    state.store("groups")[("/page/1",)].append("lost")
    state.save()
    assert storage == before


# -- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"\x09\x00", b"\x01garbage"], ids=["encoding", "checksum"])
def test_an_unreadable_bucket_is_named(data: bytes) -> None:
    storage = MemoryStateStorage()
    filled(storage, 5000)
    storage[("groups", 3)] = data
    with pytest.raises(StateUnreadable) as caught:
        list(KeyGroupState(storage, key_group=2).store("groups"))
    assert caught.value.where == 'key group 2, store "groups", bucket 3'
    storage[ROOT] = data
    with pytest.raises(StateUnreadable) as caught:
        KeyGroupState(storage, key_group=2)
    assert caught.value.where == "key group 2, root"


# -- what lies in checkpoints ---------------------------------------------------------------------------------------

PAGE = Path(__file__).with_name("key-group-v1.txt")


def test_the_stored_state_of_version_1_stays_readable() -> None:
    """Made by `golden.py`, once; a later version may write otherwise, but must read this."""
    storage = MemoryStateStorage()
    for line in PAGE.read_text().splitlines():
        name, number, data = line.split("\t")
        storage[(name, int(number))] = bytes.fromhex(data)
    state = KeyGroupState(storage)
    assert dict(state.store("0-aggregate/groups")) == {(f"/page/{n}", n): [n, Decimal(n) / 4] for n in range(300)}
    assert dict(state.store("0-aggregate/clock")) == {"now": 1_700_000_000_000, (): [1, 2]}
