"""Protection against CSV injection: text that a spreadsheet would evaluate as a formula gets a leading quote.

Any producer can write such a record, and a user who opens the export would run it. Numbers stay numbers.
"""

from __future__ import annotations

import re

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z"
_FORMULA = re.compile(rf"[=@\t\r\n＝＠＋－]|[+-](?!{_NUMBER})")


def escape_formula(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text
