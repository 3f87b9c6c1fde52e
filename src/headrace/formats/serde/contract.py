"""The contract of serdes: one payload becomes the values of given columns, and back.

Values are those of the chain (see `headrace.plan.types`). An invalid payload raises `BadRecord` with a reason; it never
crashes the reader. `None` is no payload, and decodes to None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.schema import Field


class Serde(Protocol):
    """Created for fixed columns; stateless, so that one instance serves all partitions."""

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None: ...
    def encode(self, row: Sequence[Any] | None) -> bytes | None: ...


class SerdeMaker(Protocol):
    """The factory that a serde registers as a component of kind "serde".

    `check` raises a coded error when the format cannot hold these columns (a type, a number of columns, an option).
    """

    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None: ...
    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde: ...
