"""The format `NONE`: no columns, whatever the payload holds."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.component import Component, register
from headrace.errors import FormatUnsupported
from headrace.formats.column_types import describe_columns
from headrace.formats.contract import Format, NoneSerde, Serde
from headrace.schema import Field


class NoneFormat(Format):
    wraps = False

    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        if columns:
            raise FormatUnsupported(
                "The 'NONE' format can only be used when no columns are defined. "
                f"Got: {describe_columns(columns, is_key=is_key)}",
                fix="choose a format with columns, for example JSON",
            )

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde:
        self.check(columns, is_key=is_key, wrapped=wrapped)
        return NoneSerde()


register(Component("format", "none", "No columns: every payload reads as null.", NoneFormat))
