"""Writes the page that every later version must read: `python -m tests.unit.engine.record.golden`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from headrace.engine.record.state import KeyGroupState
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage

if __name__ == "__main__":
    storage = MemoryStateStorage()
    state = KeyGroupState(storage)
    state.store("0-aggregate/groups").update({(f"/page/{n}", n): [n, Decimal(n) / 4] for n in range(300)})
    state.store("0-aggregate/clock").update({"now": 1_700_000_000_000, (): [1, 2]})
    state.save()
    lines = [f"{name}\t{number}\t{data.hex()}" for (name, number), data in storage.items()]
    Path(__file__).with_name("key-group-v1.txt").write_text("\n".join(lines) + "\n")
