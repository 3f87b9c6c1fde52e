"""Optional libraries: needed by some formats only, and installed with an extra of the package."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.errors import MissingDependency


def require_library(library: str, extra: str) -> None:
    """Fail before anything is read or written, not halfway."""
    package = library.partition(".")[0]
    if find_spec(package) is None or find_spec(library) is None:
        raise MissingDependency(
            f'the format {extra.upper()} needs the library "{package}"', fix=f"pip install 'headrace[{extra}]'"
        )
