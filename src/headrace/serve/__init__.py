"""The HTTP servers. They listen on the loopback interface unless configured otherwise."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.errors import MissingDependency

_LIBRARIES = ("starlette", "uvicorn", "uvloop", "httptools", "websockets", "h2", "prometheus_client")


def require_libraries() -> None:
    """Raise if the libraries of the server are not installed, before anything is opened."""
    for library in _LIBRARIES:
        if find_spec(library) is None:
            raise MissingDependency(f'servers need the library "{library}"', fix="pip install 'headrace[server]'")
