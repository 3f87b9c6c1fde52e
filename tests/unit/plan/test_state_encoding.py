"""Encoding of state: round trips, and refusal of unreadable bytes."""

from __future__ import annotations

import marshal
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import StateUnreadable
from headrace.plan.state_encoding import decode, encode, unpacked_size
from tests.unit.engine.record.state_values import same, values

# Written by version 1 of the encoding. They lie in checkpoints: no later version may read them otherwise.
GOLDEN: list[tuple[str, Any]] = [
    ("013461b38c4e", None),
    ("01c9034af654", True),
    ("013aba3bbe46", False),
    ("016f60cb916900000000", 0),
    ("01b1dbeb7269ffffffff", -1),
    ("0129c6b3526c03000000000000000200", 2147483648),
    (
        "0152bdce206cf2ffffff00000000000000000000000000000000000000000000000000002000",
        -1606938044258990275541962092341162602522202993782792835301376,
    ),
    ("01a373aa0867000000000000f83f", 1.5),
    ("0124c86fa0670000000000000080", -0.0),
    ("011d76619067000000000000f07f", float("inf")),
    ("01ca70b1127500000000", ""),
    ("01d5c3f056750400000074657874", "text"),
    ("015c3983a87509000000c3a4e282acf09f9880", "ä€😀"),
    ("019e5526a47503000000eda080", "\ud800"),
    ("01453044b27300000000", b""),
    ("01865150fa730200000000ff", b"\x00\xff"),
    ("010af3ba682800000000", ()),
    ("011618a8e828020000006901000000750100000061", (1, "a")),
    ("01b48120775b00000000", []),
    ("0138ad31c05b0200000069010000005b010000006902000000", [1, [2]]),
    ("01b2d0b32f7b30", {}),
    ("012230796e7b280200000075010000006b69010000005b02000000690100000067000000000000044030", {("k", 1): [1, 2.5]}),
    ("02e0a3a4152802000000750800000000646563696d616c7504000000312e3530", Decimal("1.50")),
    ("023e884b392802000000750800000000646563696d616c75020000002d30", Decimal("-0")),
    ("02531b91812802000000750800000000646563696d616c75030000004e614e", Decimal("NaN")),
    ("01e2e91d462802000000750800000000646563696d616c750100000031", ("\x00decimal", "1")),
    (
        "02e3fb8c9a5b0100000028020000007506000000007475706c6528020000007506000000007475706c652802000000750800000000646563696d616c750100000031",
        [("\x00tuple", Decimal("1"))],
    ),
    (
        "02682738517b2802000000750800000000646563696d616c750400000031452b3328020000002802000000750800000000646563696d616c7501000000324e30",
        {Decimal("1E+3"): (Decimal("2"), None)},
    ),
]


PACKED: list[tuple[str, Any]] = [
    (
        "031cfa07b2000001b4f00e7b280100000075070000002f706167652f305b0200000069000000006705004c0000f83f240012312400003a"
        "000f24000612322400004d000f240006123324001f036c0009123424001f04240009123524001f05240009123624001f06240009123724"
        "00000d010fb40006123824001f08480009123924001e092400003700026801133169011f0a25000a036a01140b2500500000f83f30",
        {(f"/page/{n}",): [n, 1.5] for n in range(12)},
    ),
    (
        "042f5403bf00000213f00e7b280100000075070000002f706167652f305b020000006900000000280a002075080b0080646563696d616c"
        "752d001c30330012313300001c000f3300008c04000000302e32353600123236000064000f360000110336000d350012333500001e000f"
        "350000026b001d37360012343600001f000f36000000b8001c319e00123533001f05070103004a001f31d40000123636001f0636000300"
        "b6002d312e9e00123735000083010f9e0000026b000ed40012383600009e010f36000000d4001c32d400123933001f099e000390040000"
        "00322e323530",
        {(f"/page/{n}",): [n, Decimal(n) / 4] for n in range(10)},
    ),
]
"""What is larger is packed. LZ4 may pack it otherwise in other versions, but reads it."""


@given(values)
def test_encoded_values_are_decoded_unchanged(value: Any) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        ("\x00decimal", "1.5"),
        ("\x00tuple", ("\x00decimal", "1")),
        (("\x00decimal", "1"), Decimal("1.50")),
        [("\x00tuple", Decimal(1)), ("\x00decimal", Decimal("NaN"))],
        {("\x00decimal", "1"): Decimal(1), Decimal(1): ("\x00decimal", "1")},
    ],
    ids=repr,
)
def test_a_tuple_that_looks_like_a_tag_stays_a_tuple(value: Any) -> None:
    assert same(decode(encode(value)), value)


@given(st.lists(values, min_size=20), st.sampled_from([1, 10, 100]))
def test_large_values_are_compressed_and_decoded_unchanged(value: list[Any], times: int) -> None:
    data = encode(value * times)
    assert same(decode(data), value * times)
    assert len(data) <= unpacked_size(data) + 9


def test_incompressible_values_are_not_compressed() -> None:
    noise = random.Random(1).randbytes(5000)
    assert encode(noise)[0] == 1
    assert unpacked_size(encode(noise)) == len(encode(noise)) == 5010
    assert encode("a" * 5000)[0] == 3
    assert (unpacked_size(encode("a" * 5000)), len(encode("a" * 5000)) < 100) == (5005, True)


@pytest.mark.parametrize(("data", "value"), PACKED, ids=["plain", "tagged"])
def test_compressed_values_of_older_versions_stay_readable(data: str, value: Any) -> None:
    assert same(decode(bytes.fromhex(data)), value)


@pytest.mark.parametrize(("data", "value"), GOLDEN, ids=[repr(value) for _, value in GOLDEN])
def test_values_of_older_versions_stay_readable(data: str, value: Any) -> None:
    assert same(decode(bytes.fromhex(data)), value)
    assert encode(value).hex() == data


def test_interned_strings_do_not_change_the_encoding() -> None:
    name = "".join(["gro", "ups"])
    other = "".join(["gro", "ups"])
    assert name is not other
    assert encode((name, name)) == encode((name, other)) == encode(("groups", "groups"))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x05\x00\x00\x00\x00N", b"\xff" * 9], ids=bytes.hex)
def test_an_unknown_encoding_is_refused(data: bytes) -> None:
    with pytest.raises(StateUnreadable, match="this version supports 01, 02, 03, 04") as caught:
        decode(data, 'page 3, store "groups", bucket 7')
    assert caught.value.code == "state-unreadable"
    assert caught.value.where == 'page 3, store "groups", bucket 7'


@given(values, st.data())
def test_damaged_values_are_refused(value: Any, data: st.DataObject) -> None:
    whole = encode(value)
    at = data.draw(st.integers(0, len(whole) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
    with pytest.raises(StateUnreadable):
        decode(damaged)


@given(values, st.data())
def test_truncated_values_are_refused(value: Any, data: st.DataObject) -> None:
    whole = encode(value)
    with pytest.raises(StateUnreadable):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_the_marshal_version_is_readable_by_every_python() -> None:
    """Types of version 2 only: no references (3), no short or interned text (4), no slices (5)."""
    value = {"a": [1, -1.5, "ä", b"b", (None, True, 1 << 70)], "b": "a"}
    assert marshal.loads(encode(value)[5:]) == value
    assert encode(value)[5:] == marshal.dumps(value, 2)
