"""Libraries that only some formats need, and that come with an extra of the package."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.errors import MissingPart


def require(library: str, extra: str) -> None:
    """Refuse before anything is read or written, not in the middle of it."""
    package = library.partition(".")[0]
    if find_spec(package) is None or find_spec(library) is None:
        raise MissingPart(
            f'the format {extra.upper()} needs the library "{package}"', fix=f"pip install 'headrace[{extra}]'"
        )
