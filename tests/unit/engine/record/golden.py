"""Writes the page that every later version must read: `python -m tests.unit.engine.record.golden`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from headrace.engine.record.state import KeyGroupState
from tests.unit.engine.record.shelves import MemoryShelf

if __name__ == "__main__":
    shelf = MemoryShelf()
    state = KeyGroupState(shelf)
    state.store("0-aggregate/groups").update({(f"/page/{n}", n): [n, Decimal(n) / 4] for n in range(300)})
    state.store("0-aggregate/clock").update({"now": 1_700_000_000_000, (): [1, 2]})
    state.save()
    lines = [f"{name}\t{number}\t{data.hex()}" for (name, number), data in shelf.items()]
    Path(__file__).with_name("page-v1.txt").write_text("\n".join(lines) + "\n")
