"""Raw: the payload is the value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.errors import BadSchema
from headrace.formats.lookup import find_row_format
from headrace.schema import RAW, Schema

FORMAT = find_row_format("raw", {})
PAYLOADS = pa.array([b"a", b"\xff", None, b""], pa.binary())


def test_bytes_pass_unchanged() -> None:
    decoded = FORMAT.decode(PAYLOADS, RAW)
    assert decoded.rows.column("value").to_pylist() == [b"a", b"\xff", None, b""]
    assert decoded.rows.column("key").to_pylist() == [None] * 4
    assert FORMAT.encode(decoded.rows, RAW).equals(PAYLOADS)


def test_a_text_column_rejects_invalid_utf_8() -> None:
    decoded = FORMAT.decode(PAYLOADS, Schema.parse("id bigint key, line string"))
    assert decoded.rows.column("line").to_pylist() == ["a", None, ""]
    assert decoded.good.tolist() == [0, 2, 3]
    assert [(r.index, r.code) for r in decoded.rejects] == [(1, "bad-record")]


def test_other_schemas_are_refused() -> None:
    with pytest.raises(BadSchema, match="raw"):
        FORMAT.decode(PAYLOADS, Schema.parse("a int, b string"))
