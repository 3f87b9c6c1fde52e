"""Settings from a file, the environment and flags; an error names its place and the fix."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadSetting
from headrace.settings import (
    Settings,
    Size,
    declared_settings,
    duration_text,
    load_settings,
    parse_duration,
    parse_size,
    parse_value,
    resolve_settings,
    size_text,
)
from headrace.settings.loader import _FORMER_NAMES
from headrace.settings.sections import find_setting


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headrace.toml"


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}).storage.linger == Settings().storage.linger
    assert {o.origin for o in resolve_settings(environ={})} == {"default"}


def test_flags_override_the_environment_which_overrides_the_file(file: Path) -> None:
    file.write_text(
        """
        [query]
        max_batch_rows = 1
        [storage]
        log = "kafka"
        linger = "5ms"
        inline_bytes = "1 KB"
        maintenance_interval = 2.5
        """
    )
    environ = {"HEADRACE_QUERY_MAX_BATCH_ROWS": "2", "HEADRACE_STORAGE_LOG": "embedded", "HOME": "/"}
    flags = {"query_max_batch_rows": 3, "storage_data": None}
    settings = load_settings(flags, environ=environ, file=file)
    assert settings == Settings.of(
        query_max_batch_rows=3,
        storage_linger=timedelta(milliseconds=5),
        storage_inline_bytes=Size(1024),
        storage_maintenance_interval=timedelta(seconds=2.5),
        kafka_jars=settings.kafka.jars,
        spark_class_archives=settings.spark.class_archives,
    )
    origins = {o.name: o.origin for o in resolve_settings(flags, environ=environ, file=file)}
    assert [origins[n] for n in ("query.max_batch_rows", "storage.log", "storage.linger", "kafka.jars")] == [
        "flag",
        "environment",
        str(file),
        "default",
    ]


def test_the_environment_names_the_file(file: Path) -> None:
    file.write_text("[query]\nmax_batch_rows = 9")
    assert load_settings(environ={"HEADRACE_CONFIG": str(file)}).query.max_batch_rows == 9


def test_paths_are_expanded() -> None:
    assert "~" not in str(load_settings({"storage_data": "~/x"}, environ={}).storage.data)


def test_secrets_are_marked() -> None:
    secret = ["kafka.client_options", "auth.token_secret", "client.token", "views.postgres_url", "notifiers.smtp_url"]
    assert [o.name for o in resolve_settings(environ={}) if o.secret] == secret


def test_replace_returns_a_changed_copy() -> None:
    settings = Settings.of(spark_master="local[4]", query_emit="per-record")
    assert (settings.spark.master, settings.query.emit) == ("local[4]", "per-record")
    assert settings.replace(**{"spark.master": "local[2]"}) == Settings.of(query_emit="per-record")
    with pytest.raises(BadSetting, match="spark_memory"):
        settings.replace(spark_memory=1)


def test_every_setting_has_a_unique_variable_and_a_sentence() -> None:
    specs = declared_settings()
    assert len({spec.variable for spec in specs}) == len(specs)
    assert all(spec.doc[0].isupper() and spec.doc.endswith(".") for spec in specs)
    assert {find_setting(name) for name in _FORMER_NAMES.values()} <= set(specs)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("[query]\nmax_batch_rows = 'many'", "max_batch_rows in section [query] cannot be 'many'", "Maximum number"),
        ("[query]\nmax_batch_rows = true", "max_batch_rows in section [query] cannot be True", "Maximum number"),
        ("[storage]\nlinger = [1]", "linger in section [storage] cannot be [1]", "producer"),
        ("[storage]\ninline_bytes = '1 XB'", "inline_bytes in section [storage]", "Appends"),
        ("[query]\nmax_batch_rows = ", "not TOML", "correct that line"),
        ("[sparc]\nmaster = 'x'", "no section [sparc]", "did you mean [spark]?"),
        ("[colours]\nred = 1", "no section [colours]", "sections are: storage, kafka, spark"),
        ("[spark]\nmastr = 'x'", 'section [spark] has no setting "mastr"', "did you mean master in section [spark]?"),
        ("[spark]\ncolour = 'x'", 'section [spark] has no setting "colour"', "`headrace settings` lists"),
        ("[spark]\nmax_files = 1", 'section [spark] has no setting "max_files"', "max_files in section [logging]"),
        ("[query]\nbatch_rows = 1", 'section [query] has no setting "batch_rows"', "max_batch_rows in section [query]"),
        ("batch_rows = 1", '"batch_rows" is outside a section', "write max_batch_rows in section [query]"),
        ("data = 'd'", '"data" is outside a section', "write data in section [storage]"),
        ("auth = 'required'", '"auth" is outside a section', "write mode in section [auth]"),
        ("colour = 'red'", '"colour" is outside a section', "`headrace settings` lists"),
    ],
)
def test_an_error_in_the_file_names_file_section_and_fix(file: Path, text: str, what: str, fix: str) -> None:
    file.write_text(text)
    with pytest.raises(BadSetting) as raised:
        load_settings(environ={}, file=file)
    assert raised.value.where == str(file)
    assert what in raised.value.what
    assert fix in (raised.value.fix or "")


@pytest.mark.parametrize(
    ("variable", "what", "fix"),
    [
        ("HEADRACE_STORAGE_LINGER", "HEADRACE_STORAGE_LINGER cannot be 'soon'", "producer"),
        ("HEADRACE_QUERY_MAX_BATCH_ROW", "HEADRACE_QUERY_MAX_BATCH_ROW", "mean HEADRACE_QUERY_MAX_BATCH_ROWS?"),
        ("HEADRACE_BATCH_ROWS", "HEADRACE_BATCH_ROWS", "write HEADRACE_QUERY_MAX_BATCH_ROWS"),
        ("HEADRACE_DATA", "HEADRACE_DATA", "write HEADRACE_STORAGE_DATA"),
        ("HEADRACE_SPARK_MEMORY", "HEADRACE_SPARK_MEMORY", "write HEADRACE_SPARK_DRIVER_MEMORY"),
    ],
)
def test_an_error_in_the_environment_names_the_variable(variable: str, what: str, fix: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load_settings(environ={variable: "soon"})
    assert raised.value.where == "environment"
    assert what in raised.value.what
    assert fix in (raised.value.fix or "")


def test_an_error_in_a_flag_or_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="storage_linger cannot be") as raised:
        load_settings({"storage_linger": "soon"}, environ={})
    assert raised.value.where == "flag"
    with pytest.raises(BadSetting) as raised:
        load_settings({"isolation": "process"}, environ={})
    assert raised.value.fix == "write query_isolation"
    with pytest.raises(BadSetting, match="does not exist"):
        load_settings(environ={}, file=tmp_path / "no.toml")
    with pytest.raises(BadSetting, match="does not exist"):
        load_settings(environ={"HEADRACE_CONFIG": str(tmp_path / "no.toml")})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("10s", 10),
        ("5m", 300),
        ("5min", 300),
        ("2h", 7200),
        ("7d", 604800),
        ("1h 30m", 5400),
        ("3", 3),
        ("0.5", 0.5),
        ("1w", 604800),
    ],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "-5s", "s", "1h30"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_a_formatted_duration_is_parsed_back(ms: int) -> None:
    duration = timedelta(milliseconds=ms)
    assert parse_duration(duration_text(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024", 1024),
        ("64 KB", 65536),
        ("10MiB", 10 << 20),
        ("1.5k", 1536),
        ("2 GB", 2 << 30),
        ("1t", 1 << 40),
        ("5b", 5),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert isinstance(parse_size(text), Size)


@pytest.mark.parametrize("text", ["", "-1", "many", "1 XB"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_sizes_are_formatted() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 40)] == ["0 B", "1023 B", "1.5 KB", "5 MB", "3 TB"]


def test_booleans_are_parsed() -> None:
    assert [parse_value(bool, t) for t in ("true", "Yes", "on", "1", "false", "NO", "off", "0")] == [True] * 4 + [
        False
    ] * 4
    with pytest.raises(ValueError, match="true or false"):
        parse_value(bool, "maybe")


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("max_statements_running", 0, 1),
        ("max_inserts_running", -1, 1),
        ("max_pulls_running", -1, 0),
        ("max_queued", 0, 1),
    ],
)
def test_a_limit_of_a_server_below_its_minimum_is_refused(file: Path, name: str, value: int, least: int) -> None:
    for written in (value, f'"{value}"'):
        file.write_text(f"[server]\n{name} = {written}\n")
        with pytest.raises(BadSetting, match=f"it is at least {least}"):
            load_settings(environ={}, file=file)
    file.write_text(f"[server]\n{name} = {least}\n")
    assert getattr(load_settings(environ={}, file=file).server, name) == least


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("query.on_failing_record", "deadletter", 'did you mean "dead-letter"?'),
        ("query.on_failing_record", "ignore", "choose dead-letter or stop"),
        ("query.execution_mode", "nativ", 'did you mean "native"?'),
        ("query.emit", "always", "choose per-batch or per-record"),
        ("query.sink_topics", "types", 'did you mean "typed"?'),
        ("query.isolation", "container", "choose shared or process"),
        ("storage.log", "file", "choose embedded or kafka"),
        ("views.backend", "oracle", "choose sqlite or postgres"),
        ("auth.mode", "none", "choose local or required"),
    ],
)
def test_a_value_that_is_no_choice_is_refused_with_a_suggestion(file: Path, name: str, value: str, fix: str) -> None:
    section, _, key = name.partition(".")
    file.write_text(f'[{section}]\n{key} = "{value}"\n')
    with pytest.raises(BadSetting, match=f'{key} in section .{section}. cannot be "{value}"') as refused:
        load_settings(environ={}, file=file)
    assert refused.value.fix == fix


def test_choices_contain_the_default() -> None:
    for spec in declared_settings():
        assert not spec.choices or spec.default in spec.choices, spec.key


@pytest.mark.parametrize(
    "line",
    ["key_groups = 0", "max_batch_rows = 0", "pull_workers = -1", "pull_max_rows = -1", "stop_timeout = -1"],
)
def test_a_setting_of_queries_below_its_minimum_is_refused(file: Path, line: str) -> None:
    file.write_text(f"[query]\n{line}\n")
    with pytest.raises(BadSetting, match="cannot be"):
        load_settings(environ={}, file=file)
