"""Where the dashboard is, and what of it is open to who is not known yet: the page to log in by, and its files."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/ui"
"""NiceGUI puts it before links by itself; what else names a path must do so."""
LOG_IN = f"{PREFIX}/log-in"
_FILES = ("headrace.css", "headrace.svg", "log-in.js")
OPEN = frozenset([("GET", LOG_IN), *(("GET", f"{PREFIX}/static/{name}") for name in _FILES)])


def log_in_first(path: str) -> str:
    """Where a browser goes that asked for a page and is not known."""
    return f"{LOG_IN}?next={quote(path)}"


def is_page(path: str) -> bool:
    return path == "/" or path.startswith(f"{PREFIX}/")
