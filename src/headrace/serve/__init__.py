"""What headrace answers over HTTP. Servers listen on this machine alone unless they are told otherwise."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.errors import MissingPart

_LIBRARIES = ("starlette", "uvicorn", "httptools", "websockets", "hypercorn")


def require_libraries() -> None:
    """Refuse before anything is opened."""
    for library in _LIBRARIES:
        if find_spec(library) is None:
            raise MissingPart(f'servers need the library "{library}"', fix="pip install 'headrace[server]'")
