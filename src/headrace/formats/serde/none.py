"""The format `NONE`: no columns, whatever the payload holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.component import Component, register
from headrace.errors import FormatUnsupported
from headrace.formats.serde.column_checks import describe_columns
from headrace.formats.serde.contract import Serde
from headrace.schema import Field


class NoneSerde:
    """Neither reads nor writes anything."""

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        return None

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        return None


class BlankSerde:
    """For values without columns in a format that cannot express them: there is a row, and nothing in it."""

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        return None if payload is None else ()

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        return None if row is None else b""


def without_columns(*, is_key: bool) -> Serde:
    return NoneSerde() if is_key else BlankSerde()


class NoneMaker:
    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        if columns:
            raise FormatUnsupported(
                "The 'NONE' format can only be used when no columns are defined. "
                f"Got: {describe_columns(columns, is_key=is_key)}",
                fix="name a format that holds columns, for example JSON",
            )

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> NoneSerde:
        self.check(columns, is_key=is_key, wrapped=wrapped)
        return NoneSerde()


register(Component("serde", "none", "No columns: every payload reads as null.", NoneMaker))
