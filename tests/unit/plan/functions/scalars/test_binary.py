from typing import Any
from uuid import UUID

import pytest

from tests.unit.plan.functions.function_call import run

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("ENCODE", ("4578616d706C6521", "hex", "ascii"), "Example!"),
    ("ENCODE", ("c39c62", "hex", "utf8"), "Üb"),
    ("ENCODE", ("c39c62", "hex", "ascii"), "\ufffd\ufffdb"),
    ("ENCODE", ("0x578616d706C6521", "hex", "base64"), "BXhhbXBsZSE="),
    ("ENCODE", ("X'4578'", "hex", "utf8"), "Ex"),
    ("ENCODE", ("x''", "hex", "utf8"), ""),
    ("ENCODE", ("0x", "hex", "utf8"), ""),
    ("ENCODE", ("Ελ", "ascii", "hex"), "3f3f"),
    ("ENCODE", ("Example!", "utf8", "hex"), "4578616d706c6521"),
    ("ENCODE", ("zpXOuw==", "base64", "utf8"), "Ελ"),
    ("ENCODE", (None, "hex", "utf8"), None),
    ("ENCODE", ("a", "utf8", None), None),
    ("FROM_BYTES", (b"\x1a\xb2", "hex"), "1AB2"),
    ("FROM_BYTES", (b"!", "ascii"), "!"),
    ("FROM_BYTES", (b"!", "base64"), "IQ=="),
    ("FROM_BYTES", ("好".encode(), "UTF8"), "好"),
    ("FROM_BYTES", (None, "hex"), None),
    ("TO_BYTES", ("1aB2", "hex"), b"\x1a\xb2"),
    ("TO_BYTES", ("好", "utf8"), "好".encode()),
    ("TO_BYTES", ("IQ==", "base64"), b"!"),
    ("TO_BYTES", ("", "hex"), b""),
    ("INT_FROM_BYTES", (b"\x00\x00\x00\x2a",), 42),
    ("INT_FROM_BYTES", (b"\xff\xff\xff\xfe",), -2),
    ("INT_FROM_BYTES", (b"\x2a\x00\x00\x00", "LITTLE_ENDIAN"), 42),
    ("BIGINT_FROM_BYTES", (b"\x00" * 7 + b"\x2a", "BIG_ENDIAN"), 42),
    ("DOUBLE_FROM_BYTES", (b"\x3f\xf8" + b"\x00" * 6,), 1.5),
    ("MD5", ("r1",), "7c92cf1eee8d99cc85f8355a3d6e4b86"),
    ("MD5", ("",), "d41d8cd98f00b204e9800998ecf8427e"),
    ("MD5", (None,), None),
    ("UUID", (bytes(range(16)),), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ("UUID", (b"short",), None),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_a_function_returns_its_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert run(name, *arguments) == result


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ENCODE", ("0x0x", "hex", "utf8")),
        ("ENCODE", ("X'", "hex", "utf8")),
        ("ENCODE", ("x'4578", "hex", "utf8")),
        ("ENCODE", ("x'578'", "hex", "utf8")),
        ("ENCODE", ("578", "hex", "utf8")),
        ("ENCODE", ("a", "utf9", "hex")),
        ("TO_BYTES", ("4 5", "hex")),
        ("TO_BYTES", ("I!", "base64")),
        ("INT_FROM_BYTES", (b"\x2a",)),
        ("INT_FROM_BYTES", (b"\x00\x00\x00\x2a", "ENDIAN")),
        ("DOUBLE_FROM_BYTES", (b"\x2a",)),
    ],
)
def test_invalid_arguments_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"."):
        run(name, *arguments)


def test_a_uuid_is_random() -> None:
    assert UUID(run("UUID")).version == 4
    assert run("UUID") != run("UUID")
