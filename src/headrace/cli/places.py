"""Places in a partition as options of commands."""

from __future__ import annotations

from typing import Annotated, Any

from headrace.cli.options import parsed
from headrace.log.places import EARLIEST, LATEST, Place, find, parse

__all__ = ["EARLIEST", "LATEST", "From", "Place", "To", "find", "option", "parse"]


def option(help: str, name: str) -> Any:
    return parsed(parse, "PLACE", f"{help}: earliest, latest, an offset, a time (ISO, UTC), or -10m for ago.", name)


From = Annotated[Any, option("Where to begin", "--from")]
To = Annotated[Any, option("Where to go", "--to")]
