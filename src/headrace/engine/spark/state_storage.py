"""What stores the buckets of a key group's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Address = tuple[str, int]
"""A store's name and the bucket's number."""

Change = tuple[Address, bytes | None]
"""The new content of a bucket; None if it is removed."""


class StateStorage(Protocol):
    """Stores a key group's buckets."""

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]: ...
    def write(self, changes: Iterable[Change]) -> None: ...
