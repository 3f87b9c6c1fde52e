"""Protection against CSV injection: text that a spreadsheet would evaluate as a formula gets a leading quote.

Any producer can write such a record, and a user who opens the export would run it. A spreadsheet may ignore blanks and
invisible characters before a formula, and takes wide and small forms of its signs. Numbers stay numbers.
"""

from __future__ import annotations

import re

_BLANKS = r"[\s\x00-\x20\u180e\u200b-\u200f\u2060\ufeff]*"
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z"
_SIGNS = "＋－﹢﹣\u2212"
_FORMULA = re.compile(rf"[\t\r\n]|{_BLANKS}(?:[=@＝＠﹦﹫{_SIGNS}]|[+-](?!{_NUMBER}))")


def escape_formula(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text
