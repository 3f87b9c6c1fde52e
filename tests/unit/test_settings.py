"""Settings come from a file, the environment and flags; what is wrong says where it stands."""

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
    duration_text,
    load_settings,
    parse_duration,
    parse_size,
    parse_value,
    resolve_settings,
    size_text,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headrace.toml"


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}).linger == Settings().linger
    assert {o.origin for o in resolve_settings(environ={})} == {"default"}


def test_layers_weigh_more_and_more(file: Path) -> None:
    file.write_text('batch_rows = 1\nlog = "kafka"\nlinger = "5ms"\ninline_bytes = "1 KB"\nupkeep_every = 2.5')
    environ = {"HEADRACE_BATCH_ROWS": "2", "HEADRACE_LOG": "embedded", "HOME": "/"}
    settings = load_settings({"batch_rows": 3, "data": None}, environ=environ, file=file)
    assert (settings.batch_rows, settings.log, settings.data) == (3, "embedded", Path("headrace-data"))
    assert (settings.linger, settings.inline_bytes) == (timedelta(milliseconds=5), 1024)
    assert settings.upkeep_every == timedelta(seconds=2.5)
    origins = {o.name: o.origin for o in resolve_settings({"batch_rows": 3}, environ=environ, file=file)}
    assert [origins[n] for n in ("batch_rows", "log", "linger", "jars")] == [
        "flag",
        "environment",
        str(file),
        "default",
    ]


def test_the_environment_names_the_file(file: Path) -> None:
    file.write_text("batch_rows = 9")
    assert load_settings(environ={"HEADRACE_CONFIG": str(file)}).batch_rows == 9


def test_paths_are_expanded() -> None:
    assert "~" not in str(load_settings({"data": "~/x"}, environ={}).data)


def test_secrets_are_marked() -> None:
    secret = ["kafka_options", "token_secret", "token", "views_url", "smtp"]
    assert [o.name for o in resolve_settings(environ={}) if o.secret] == secret


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("batch_rows = 'many'", "file"),
        ("batch_rows = true", "file"),
        ("linger = [1]", "file"),
        ("inline_bytes = '1 XB'", "file"),
        ("colour = 'red'", "file"),
        ("batch_rows = ", "file"),
    ],
)
def test_what_is_wrong_in_the_file_is_told(file: Path, text: str, where: str) -> None:
    file.write_text(text)
    with pytest.raises(BadSetting) as raised:
        load_settings(environ={}, file=file)
    assert raised.value.where == str(file)
    assert raised.value.fix


def test_what_is_wrong_elsewhere_is_told(tmp_path: Path) -> None:
    for given_, where in (
        ({"environ": {"HEADRACE_LINGER": "soon"}}, "environment"),
        ({"flags": {"linger": "soon"}}, "flag"),
    ):
        with pytest.raises(BadSetting) as raised:
            load_settings(**{"environ": {}, **given_})
        assert raised.value.where == where
    with pytest.raises(BadSetting, match="batch_rows"):
        load_settings(environ={"HEADRACE_BATCH_ROW": "1"})
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
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "-5s", "s", "1h30"])
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_the_text_of_a_duration_is_read_back(ms: int) -> None:
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
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert isinstance(parse_size(text), Size)


@pytest.mark.parametrize("text", ["", "-1", "many", "1 XB"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_sizes_for_people() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 40)] == ["0 B", "1023 B", "1.5 KB", "5 MB", "3 TB"]


def test_truth() -> None:
    assert [parse_value(bool, t) for t in ("true", "Yes", "on", "1", "false", "NO", "off", "0")] == [True] * 4 + [
        False
    ] * 4
    with pytest.raises(ValueError, match="true or false"):
        parse_value(bool, "maybe")
