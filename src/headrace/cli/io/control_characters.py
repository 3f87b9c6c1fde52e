"""Control characters as escapes: a record, a name or an error must not move the cursor or draw over the terminal.

Tables and messages are escaped everywhere. Rows as JSON, CSV or raw values are exact in files and pipes; only what goes
to a terminal is escaped, JSON so that it stays the same JSON.
"""

from __future__ import annotations

import re
import sys

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str, allowed: str = "") -> str:
    """Replace control characters by escapes, except the `allowed` ones."""
    return _CONTROLS.sub(lambda match: match[0] if match[0] in allowed else ascii(match[0])[1:-1], text)


def escape_json_controls(text: str) -> str:
    """The same JSON, in which control characters of its strings are escapes."""
    return _CONTROLS.sub(lambda match: match[0] if match[0] in "\n\r\t" else f"\\u{ord(match[0]):04x}", text)


def for_terminal(line: bytes, *, is_json: bool) -> bytes:
    """A line of output as it is shown if standard output is a terminal; elsewhere it stays exact."""
    if not sys.stdout.isatty():
        return line
    text = line.decode(errors="backslashreplace")
    return (escape_json_controls(text) if is_json else escape_controls(text, "\n\t")).encode()
