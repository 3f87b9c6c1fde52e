"""Numbers in Java's text form, as files and topics of ksqlDB and Kafka contain them."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from math import copysign, inf, isnan

_WIDE = Context(prec=60)

WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
"""What `Long.parseLong` and `Integer.parseInt` accept, before the range check."""

_DOUBLE = re.compile(
    r"[\x00-\x20]*(?:([+-]?(?:NaN|Infinity))"
    r"|([+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?)[fFdD]?)[\x00-\x20]*"
)


def parse_double(text: str) -> float | None:
    """Like `Double.parseDouble`, except for its hexadecimal form; None where that would throw.

    >>> parse_double(" 1.5d"), parse_double("-Infinity"), parse_double("1_0")
    (1.5, -inf, None)
    """
    match = _DOUBLE.fullmatch(text)
    return None if match is None else float(match[1] or match[2])


def double_text(value: float) -> str:
    """Like `Double.toString`: always a point, and an exponent below 0.001 and from ten million on.

    >>> double_text(1.0), double_text(1e10), double_text(0.00012)
    ('1.0', '1.0E10', '1.2E-4')
    """
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if copysign(1.0, value) < 0 else "0.0"
    text = repr(value)
    if 1e-3 <= abs(value) < 1e7:
        return text
    if float(short := f"{value:.1e}") == value:
        text = short  # with two digits Java uses the nearest: 4.9E-324, not 5.0E-324
    exact = value.is_integer() and abs(value) < 1 << 63
    sign, digits, exponent = (_whole(int(value)) if exact else Decimal(text)).normalize(_WIDE).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{exponent + len(figures) - 1}"


def _whole(value: int) -> Decimal:
    """Java up to 18 writes all digits of a whole number down to its last bit, not the shortest exact form."""
    spare = abs(value).bit_length() - 55
    drop = len(str(1 << spare)) - 1 if spare > 1 else 0
    return Decimal((abs(value) + 10**drop // 2) // 10**drop).scaleb(drop).copy_sign(Decimal(value))


def decimal_text(value: Decimal) -> str:
    """Like `BigDecimal.toPlainString`: every digit, no exponent."""
    return format(value, "f")
