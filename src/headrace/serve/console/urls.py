"""Paths of the console, and those open to unauthenticated users: the log-in page, its files, and one-time links.

`STATIC_PAGE_POLICY` is the content security policy of pages without NiceGUI.
"""

from __future__ import annotations

from urllib.parse import quote

from headrace.serve.browser_sessions import LINK_PATH

PREFIX = "/ui"
"""NiceGUI adds it to links; all other paths must include it."""
LOGIN_PATH = f"{PREFIX}/log-in"
_FILES = ("headrace.css", "headrace.svg", "log-in.js", "open.js")
PUBLIC_PATHS = frozenset(
    [("GET", LOGIN_PATH), ("GET", LINK_PATH), *(("GET", f"{PREFIX}/static/{name}") for name in _FILES)]
)
STATIC_PAGE_POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


def login_redirect(path: str) -> str:
    """The log-in page to which an unauthenticated browser is redirected."""
    return f"{LOGIN_PATH}?next={quote(path)}"


def is_page(path: str) -> bool:
    return path == "/" or path.startswith(f"{PREFIX}/")
