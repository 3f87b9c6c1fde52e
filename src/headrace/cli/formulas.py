"""Texts that a spreadsheet would take for formulas: in CSV for people they get a quote in front, which makes them text.

A record is written by anybody, and who opens an export runs what is in it. A number stays a number.
"""

from __future__ import annotations

import re

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z"
_FORMULA = re.compile(rf"[=@\t\r\n＝＠＋－]|[+-](?!{_NUMBER})")


def defused(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text
