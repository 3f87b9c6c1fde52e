"""Options for positions in a partition."""

from __future__ import annotations

from typing import Annotated, Any

from headrace.cli.params.values import parsed_option
from headrace.log.offset_spec import EARLIEST, LATEST, OffsetSpec, parse_offset_spec, resolve_offset

__all__ = ["EARLIEST", "LATEST", "From", "OffsetSpec", "To", "offset_option", "parse_offset_spec", "resolve_offset"]


def offset_option(help: str, name: str) -> Any:
    return parsed_option(
        parse_offset_spec,
        "OFFSET",
        f"{help}: earliest, latest, an offset, an ISO time (UTC), or an age such as -10m.",
        name,
    )


From = Annotated[Any, offset_option("Start", "--from")]
To = Annotated[Any, offset_option("New offset", "--to")]
