"""Options for positions in a partition."""

from __future__ import annotations

from typing import Annotated, Any

from headrace.cli.params.values import parsed_option
from headrace.log.offset_spec import EARLIEST, LATEST, OffsetSpec, parse_offset_spec, resolve_offset

__all__ = ["EARLIEST", "LATEST", "From", "OffsetSpec", "To", "offset_option", "parse_offset_spec", "resolve_offset"]


def offset_option(help: str, name: str) -> Any:
    return parsed_option(
        parse_offset_spec, "PLACE", f"{help}: earliest, latest, an offset, a time (ISO, UTC), or -10m for ago.", name
    )


From = Annotated[Any, offset_option("Where to begin", "--from")]
To = Annotated[Any, offset_option("Where to go", "--to")]
