"""JSON whose numbers stay what they are: those with a point or an exponent are decimals, in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def read_json(text: str | bytes) -> Any:
    """A decimal knows how it was written: `1.50` is not `1.5`."""
    return json.loads(text, parse_float=Decimal)


def json_text(document: Any) -> str:
    """On one line; decimals with all of their digits."""
    if isinstance(document, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))}: {json_text(v)}" for k, v in document.items()) + "}"
    if isinstance(document, list | tuple):
        return "[" + ", ".join(map(json_text, document)) + "]"
    if isinstance(document, Decimal):
        return str(document)
    return json.dumps(document, ensure_ascii=False)
