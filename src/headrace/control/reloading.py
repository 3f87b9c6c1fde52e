"""Settings that are read again while a server runs, and which of them count at once.

Queries read theirs when they begin, from the process that they run in; those count after a restart, which takes seconds
and loses nothing. To mix old and new ones would give a query two plans.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace import logfile
from headrace.errors import HeadraceError
from headrace.settings import Settings

LIVE = ("log_level", "log_file_bytes", "log_file_count", "park_after", "query_time", "query_rows", "push_queries")
"""Settings that count at once, in the server's own process."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reloaded:
    """`settings` are those that count now; `changed` of them are new, `waiting` count after a restart."""

    settings: Settings
    changed: tuple[str, ...]
    waiting: tuple[str, ...]


def merged(old: Settings, new: Settings) -> Reloaded:
    """What of new settings counts at once."""
    names = [field.name for field in dataclasses.fields(Settings)]
    differing = [name for name in names if getattr(old, name) != getattr(new, name)]
    changed = tuple(name for name in differing if name in LIVE)
    now = replace(old, **{name: getattr(new, name) for name in changed})
    return Reloaded(now, changed, tuple(name for name in differing if name not in LIVE))


def reload(old: Settings, load: Callable[[], Settings]) -> Settings:
    """Read settings again, and let those count that can; one that is wrong leaves all as it was. It is logged."""
    try:
        found = merged(old, load())
        if found.changed:
            logfile.configure(found.settings)
    except HeadraceError as error:
        _logger.error("settings were not read again: %s", error)
        return old
    _logger.info("settings were read again: %s", _told(found))
    return found.settings


def _told(found: Reloaded) -> str:
    now = [f"{name} is {getattr(found.settings, name)}" for name in found.changed]
    later = [f"{', '.join(found.waiting)} will count after a restart"] if found.waiting else []
    return "; ".join([*now, *later]) or "nothing has changed"
