"""State storage in memory that counts its calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.engine.spark.state_storage import Address, Change


class MemoryStateStorage(dict[Address, bytes]):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.writes = 0

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]:
        self.reads += len(addresses)
        return [self.get(address) for address in addresses]

    def write(self, changes: Iterable[Change]) -> None:
        for address, data in changes:
            self.writes += 1
            if data is None:
                self.pop(address, None)
            else:
                self[address] = data
