"""Settings: declared in sections, loaded from a TOML file, the environment and flags.

settings = load_settings()
settings.spark.master, settings.query.execution_mode

Settings.of(storage_data=folder)              # the defaults except for these
settings.replace(query_emit="per-record")     # a copy with other values
"""

from __future__ import annotations

from headrace.settings.loader import ResolvedSetting, load_settings, resolve_settings
from headrace.settings.sections import Settings, SettingSpec, declared_settings
from headrace.settings.values import Size, duration_text, parse_duration, parse_size, parse_value, size_text

__all__ = [
    "ResolvedSetting",
    "SettingSpec",
    "Settings",
    "Size",
    "declared_settings",
    "duration_text",
    "load_settings",
    "parse_duration",
    "parse_size",
    "parse_value",
    "resolve_settings",
    "size_text",
]
