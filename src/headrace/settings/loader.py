"""Loads settings from a file, the environment and flags; later ones take precedence.

The file is TOML, `headrace.toml` in the working folder or the file that `HEADRACE_CONFIG` names:

    [spark]
    master = "local[4]"

The environment variable of that setting is `HEADRACE_SPARK_MASTER`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.errors import BadSetting, closest, suggestion
from headrace.settings.sections import SECTIONS, Settings, SettingSpec, declared_settings, find_setting
from headrace.settings.values import parse_value

# Not settings: these choose the settings file and control tests.
_NOT_SETTINGS = {
    "HEADRACE_CONFIG",
    "HEADRACE_CORPORA",
    "HEADRACE_FAULTPOINT",
    "HEADRACE_HYPOTHESIS",
    "HEADRACE_PICTURES",
    "HEADRACE_TOOLS",
    "HEADRACE_TRACEBACK",
}
# Names of settings before there were sections, so that the error for one can say its new name.
_FORMER_NAMES = {
    "file_bytes": "storage.extent_file_bytes",
    "upkeep_every": "storage.maintenance_interval",
    "readable_after": "storage.file_delete_delay",
    "group_session": "storage.group_session_timeout",
    "kafka_servers": "kafka.bootstrap_servers",
    "kafka_options": "kafka.client_options",
    "spark_memory": "spark.driver_memory",
    "way": "query.execution_mode",
    "changes": "query.emit",
    "sink": "query.sink_topics",
    "pages": "query.key_groups",
    "park_after": "query.suspend_after",
    "batch_rows": "query.max_batch_rows",
    "realtime_every": "query.realtime_checkpoint_interval",
    "query_time": "query.pull_timeout",
    "query_rows": "query.pull_max_rows",
    "push_queries": "query.max_push_queries",
    "code_from": "server.accept_code",
    "connections": "server.max_connections",
    "connections_each": "server.max_connections_per_address",
    "auth": "auth.mode",
    "token_life": "auth.token_ttl",
    "session_life": "auth.session_ttl",
    "ca": "client.ca_cert",
    "views": "views.backend",
    "views_url": "views.postgres_url",
    "smtp": "notifiers.smtp_url",
    "webhook_private": "notifiers.webhook_allowed_private",
    "log_level": "logging.level",
    "log_file_bytes": "logging.max_file_bytes",
    "log_file_count": "logging.max_files",
}


@dataclass(frozen=True)
class ResolvedSetting:
    """A setting with its value and where that comes from."""

    spec: SettingSpec
    value: Any
    origin: str

    @property
    def name(self) -> str:
        return self.spec.key

    @property
    def doc(self) -> str:
        return self.spec.doc

    @property
    def secret(self) -> bool:
        return self.spec.secret


@dataclass(frozen=True)
class _Layer:
    """Values from one place, by full name; `spell` is how a setting is written there."""

    where: str
    values: Mapping[str, Any]
    spell: Callable[[SettingSpec], str]


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Load settings from all layers; the error for an unknown name or a bad value says which layer it is in."""
    return Settings.of(**{one.name: one.value for one in resolve_settings(flags, environ=environ, file=file)})


def resolve_settings(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> list[ResolvedSetting]:
    """Every setting with its value and its origin, for `headrace settings` and the console.

    Flags are named like `spark_master`; a value of None is no flag.
    """
    environ = os.environ if environ is None else environ
    path = file or Path(environ.get("HEADRACE_CONFIG", "headrace.toml"))
    layers = (
        _from_file(path, required=file is not None or "HEADRACE_CONFIG" in environ),
        _from_environment(environ),
        _from_flags(flags or {}),
    )
    return [_resolved(spec, layers) for spec in declared_settings()]


def _resolved(spec: SettingSpec, layers: Iterable[_Layer]) -> ResolvedSetting:
    value, origin = spec.default, "default"
    for layer in layers:
        if spec.key in layer.values:
            value, origin = _value(spec, layer.values[spec.key], layer), layer.where
    return ResolvedSetting(spec, value.expanduser() if isinstance(value, Path) else value, origin)


def _from_file(path: Path, *, required: bool) -> _Layer:
    where, values = str(path), {}
    for section, section_values in _read(path, required=required).items():
        if not isinstance(section_values, dict):
            raise _unknown(section, where, _in_file, f'"{section}" is outside a section')
        if section not in SECTIONS:
            near = closest(section, SECTIONS)
            fix = f"did you mean [{near}]?" if near else f"sections are: {', '.join(SECTIONS)}"
            raise BadSetting(f"there is no section [{section}]", where=where, fix=fix)
        for name, value in section_values.items():
            spec = find_setting(f"{section}.{name}")
            if spec is None:
                raise _unknown(name, where, _in_file, f'section [{section}] has no setting "{name}"', section)
            values[spec.key] = value
    return _Layer(where, values, _in_file)


def _read(path: Path, *, required: bool) -> Mapping[str, Any]:
    if not path.is_file():
        if required:
            raise BadSetting(f'settings file "{path}" does not exist', fix="create it, or unset HEADRACE_CONFIG")
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"the settings file is not TOML: {error}", where=str(path), fix="correct that line") from error


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    values: dict[str, Any] = {}
    for variable, value in environ.items():
        if not variable.startswith("HEADRACE_") or variable in _NOT_SETTINGS:
            continue
        name = variable.removeprefix("HEADRACE_").lower()
        spec = find_setting(name)
        if spec is None:
            raise _unknown(name, "environment", _as_variable, f"there is no setting for the variable {variable}")
        values[spec.key] = value
    return _Layer("environment", values, _as_variable)


def _from_flags(flags: Mapping[str, Any]) -> _Layer:
    values: dict[str, Any] = {}
    for name, value in flags.items():
        spec = find_setting(name)
        if spec is None:
            raise _unknown(name, "flag", _as_parameter, f'setting "{name}" does not exist')
        if value is not None:
            values[spec.key] = value
    return _Layer("flag", values, _as_parameter)


def _in_file(spec: SettingSpec) -> str:
    return f"{spec.name} in section [{spec.section}]"


def _as_variable(spec: SettingSpec) -> str:
    return spec.variable


def _as_parameter(spec: SettingSpec) -> str:
    return spec.parameter


def _unknown(
    name: str, where: str, spell: Callable[[SettingSpec], str], what: str, section: str | None = None
) -> BadSetting:
    """The error for a name that is no setting, with its new or the nearest name."""
    renamed = [spec for spec in declared_settings() if spec.name == name or spec.key == _FORMER_NAMES.get(name)]
    if renamed:
        return BadSetting(what, where=where, fix=f"write {spell(renamed[0])}")
    nearest = _nearest(name, [spec for spec in declared_settings() if section in (None, spec.section)])
    fix = f"did you mean {spell(nearest)}?" if nearest else "`headrace settings` lists all settings"
    return BadSetting(what, where=where, fix=fix)


def _nearest(name: str, specs: Iterable[SettingSpec]) -> SettingSpec | None:
    names = {name: spec for spec in specs for name in (spec.name, spec.parameter)}
    near = closest(name, names)
    return names[near] if near else None


def _value(spec: SettingSpec, raw: Any, layer: _Layer) -> Any:
    try:
        value = _parsed(spec, raw)
        if spec.least is not None and value < spec.least:
            raise ValueError(f"it is at least {spec.least}")
        if isinstance(value, timedelta) and value < timedelta(0):
            raise ValueError("a duration is not negative")
    except (TypeError, ValueError) as error:
        what = f"setting {layer.spell(spec)} cannot be {raw!r}: {error}"
        raise BadSetting(what, where=layer.where, fix=spec.doc) from error
    if spec.choices and value not in spec.choices:
        what = f'setting {layer.spell(spec)} cannot be "{value}"'
        raise BadSetting(what, where=layer.where, fix=suggestion(str(value), spec.choices, _choose(spec.choices)))
    return value


def _choose(choices: Sequence[str]) -> str:
    return f"choose {', '.join(choices[:-1])} or {choices[-1]}"


def _parsed(spec: SettingSpec, raw: Any) -> Any:
    if isinstance(raw, str):
        return parse_value(spec.type, raw)
    if isinstance(raw, bool) != (spec.type is bool):
        raise ValueError("true and false are valid only for settings that are on or off")
    if spec.type is timedelta and isinstance(raw, int | float):
        return timedelta(seconds=raw)
    return raw if isinstance(raw, spec.type) else spec.type(raw)
