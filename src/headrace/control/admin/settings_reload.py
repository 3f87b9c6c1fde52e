"""Reloads settings while a server runs, and applies those that can take effect at once.

Queries read their settings when they start, from the process that they run in. Those settings take effect after a
restart, which takes seconds and loses nothing. Mixing old and new ones would give a query two plans.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace import logfile
from headrace.errors import HeadraceError
from headrace.settings import Settings

LIVE_SETTINGS = (
    "log_level",
    "log_file_bytes",
    "log_file_count",
    "park_after",
    "query_time",
    "query_rows",
    "push_queries",
)
"""Settings that take effect at once, in the server's own process."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReloadResult:
    """`settings` are in effect now; `changed` names the new ones, `waiting` those that need a restart."""

    settings: Settings
    changed: tuple[str, ...]
    waiting: tuple[str, ...]


def merge_live(old: Settings, new: Settings) -> ReloadResult:
    """Merge those new settings that can take effect at once into the old ones."""
    names = [field.name for field in dataclasses.fields(Settings)]
    differing = [name for name in names if getattr(old, name) != getattr(new, name)]
    changed = tuple(name for name in differing if name in LIVE_SETTINGS)
    now = replace(old, **{name: getattr(new, name) for name in changed})
    return ReloadResult(now, changed, tuple(name for name in differing if name not in LIVE_SETTINGS))


def reload_settings(old: Settings, load: Callable[[], Settings]) -> Settings:
    """Reload settings and apply those that can take effect at once; an invalid one leaves all unchanged. Logged."""
    try:
        found = merge_live(old, load())
        if found.changed:
            logfile.configure(found.settings)
    except HeadraceError as error:
        _logger.error("settings were not read again: %s", error)
        return old
    _logger.info("settings were read again: %s", _told(found))
    return found.settings


def _told(found: ReloadResult) -> str:
    now = [f"{name} is {getattr(found.settings, name)}" for name in found.changed]
    later = [f"{', '.join(found.waiting)} will count after a restart"] if found.waiting else []
    return "; ".join([*now, *later]) or "nothing has changed"
