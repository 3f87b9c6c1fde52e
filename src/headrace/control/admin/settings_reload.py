"""Reloads settings while a server runs, and applies those that can take effect at once.

Queries read their settings when they start, from the process that they run in. Those settings take effect after a
restart, which takes seconds and loses nothing. Mixing old and new ones would give a query two plans.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace import logfile
from headrace.errors import HeadraceError
from headrace.settings import Settings, declared_settings

LIVE_SETTINGS = (
    "logging.level",
    "logging.max_file_bytes",
    "logging.max_files",
    "query.suspend_after",
    "query.pull_timeout",
    "query.pull_max_rows",
    "query.pull_max_bytes",
    "query.pull_max_cpu",
    "query.max_push_queries",
    *(spec.key for spec in declared_settings() if spec.section == "quota"),
)
"""Settings that take effect at once, in the server's own process."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReloadResult:
    """`settings` are in effect now; `changed` holds the new values, `pending` names those that need a restart."""

    settings: Settings
    changed: Mapping[str, Any]
    pending: tuple[str, ...]


def merge_live(old: Settings, new: Settings) -> ReloadResult:
    """Merge those new settings that can take effect at once into the old ones."""
    differing = {spec.key: new.value(spec) for spec in declared_settings() if old.value(spec) != new.value(spec)}
    changed = {key: value for key, value in differing.items() if key in LIVE_SETTINGS}
    pending = tuple(key for key in differing if key not in LIVE_SETTINGS)
    return ReloadResult(old.replace(**changed), changed, pending)


def reload_settings(old: Settings, load: Callable[[], Settings]) -> Settings:
    """Reload settings and apply those that can take effect at once; an invalid one leaves all unchanged. Logged."""
    try:
        result = merge_live(old, load())
        if result.changed:
            logfile.configure(result.settings)
    except HeadraceError as error:
        _logger.error("settings were not reloaded: %s", error)
        return old
    _logger.info("settings were reloaded: %s", _summary(result))
    return result.settings


def _summary(result: ReloadResult) -> str:
    now = [f"{name} is now {value}" for name, value in result.changed.items()]
    later = [f"{', '.join(result.pending)} take effect after a restart"] if result.pending else []
    return "; ".join([*now, *later]) or "nothing has changed"
