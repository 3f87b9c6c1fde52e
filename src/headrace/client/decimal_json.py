"""JSON with exact numbers: numbers with a point or an exponent are decimals, in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """A decimal keeps its digits as written: `1.50` is not `1.5`."""
    return json.loads(text, parse_float=Decimal)


def format_json(document: Any) -> str:
    """One line of JSON; decimals keep all of their digits."""
    if isinstance(document, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))}: {format_json(v)}" for k, v in document.items()) + "}"
    if isinstance(document, list | tuple):
        return "[" + ", ".join(map(format_json, document)) + "]"
    if isinstance(document, Decimal):
        return str(document)
    return json.dumps(document, ensure_ascii=False)
