"""A store in buckets beside a plain dict: whatever is done, in whatever order, saved and reopened at any moment."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.engine.record import state
from headrace.engine.record.state import KeyGroupState
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage
from tests.unit.engine.record.state_values import keys, same, values

few = st.integers(0, 300).map(lambda number: (f"key-{number}",)) | keys
NAMES = ("a", "b")


class Stores(RuleBasedStateMachine):
    """Buckets are tiny, so that a handful of entries makes them split."""

    @initialize(
        room=st.sampled_from([40, 200, 1000]),
        inline=st.sampled_from([0, 60, 400]),
        held=st.sampled_from([0, 100, 1000, 1 << 20]),
    )
    def begin(self, room: int, inline: int, held: int) -> None:
        self._sizes = state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES
        state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES = room, inline, held
        self.storage = MemoryStateStorage()
        self.state = KeyGroupState(self.storage, key_group=0)
        self.model: dict[str, dict[Any, Any]] = {name: {} for name in NAMES}

    def teardown(self) -> None:
        if hasattr(self, "_sizes"):
            state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES = self._sizes

    @rule(name=st.sampled_from(NAMES), key=few, value=values)
    def set(self, name: str, key: Any, value: Any) -> None:
        self.state.store(name)[key] = value
        self.model[name][key] = copy.deepcopy(value)

    @rule(name=st.sampled_from(NAMES), numbers=st.sets(st.integers(0, 300), max_size=120), value=values)
    def set_many(self, name: str, numbers: set[int], value: Any) -> None:
        for number in numbers:
            self.set(name, (f"key-{number}",), [number, value])

    @rule(name=st.sampled_from(NAMES), key=few)
    def get(self, name: str, key: Any) -> None:
        store, model = self.state.store(name), self.model[name]
        assert (key in store) == (key in model)
        assert same(store.get(key, "none"), model.get(key, "none"))

    @rule(name=st.sampled_from(NAMES), key=few)
    def pop(self, name: str, key: Any) -> None:
        assert same(self.state.store(name).pop(key, "none"), self.model[name].pop(key, "none"))

    @rule(name=st.sampled_from(NAMES), numbers=st.sets(st.integers(0, 300)))
    def delete_many(self, name: str, numbers: set[int]) -> None:
        for number in numbers:
            self.pop(name, (f"key-{number}",))

    @rule(name=st.sampled_from(NAMES), key=few, value=values)
    def set_default(self, name: str, key: Any, value: Any) -> None:
        found = self.state.store(name).setdefault(key, value)
        assert same(found, self.model[name].setdefault(key, copy.deepcopy(value)))

    @rule(name=st.sampled_from(NAMES), key=few)
    def change_in_place_and_set(self, name: str, key: Any) -> None:
        for store in (self.state.store(name), self.model[name]):
            items = store.get(key)
            items = items if isinstance(items, list) else []
            items.append(len(items))
            store[key] = items

    @rule(name=st.sampled_from(NAMES))
    def pop_item(self, name: str) -> None:
        if self.model[name]:
            key, value = self.state.store(name).popitem()
            assert same(value, self.model[name].pop(key))

    @rule(name=st.sampled_from(NAMES))
    def clear(self, name: str) -> None:
        self.state.store(name).clear()
        self.model[name].clear()

    @rule(name=st.sampled_from(NAMES))
    def iterate(self, name: str) -> None:
        found = list(self.state.store(name).items())
        assert len(found) == len(self.model[name])
        assert all(same(value, self.model[name][key]) for key, value in found)

    @rule()
    def save(self) -> None:
        self.state.save()

    @rule(touches=st.sampled_from([0, 1, 1000]))
    def save_and_reopen(self, touches: int) -> None:
        self.state.save()
        self.state = KeyGroupState(self.storage, key_group=0, touches=touches)

    @rule()
    def save_twice(self) -> None:
        self.state.save()
        writes = self.storage.writes
        self.state.save()
        assert self.storage.writes == writes

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "state"):
            assert self.state.entries == sum(map(len, self.model.values()))


TestStores = Stores.TestCase
TestStores.settings = settings(stateful_step_count=30, deadline=None)
