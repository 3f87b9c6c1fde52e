"""Secrets and values are masked in texts that leave the machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.cli.io.redaction import MASK, Redactor, redact_properties, redact_values, redactor_for
from headrace.settings import resolve_settings

OPTIONS = "security.protocol=SASL_SSL,sasl.username=anna,sasl.password=hunter2,ssl.ca.location=ca.pem"


def test_secrets_of_the_settings_are_masked_everywhere(tmp_path: Path) -> None:
    mask = redactor_for(resolve_settings({"kafka_client_options": OPTIONS}, environ={}), tmp_path)
    text = mask.text(f"options {OPTIONS}; anna said hunter2 over SASL_SSL with ca.pem")
    assert text == f"options {MASK}; {MASK} said {MASK} over SASL_SSL with ca.pem"


@pytest.mark.parametrize(
    "text",
    [
        "SET 'sasl.password' = 'it is this';",
        '{"ssl.key.password": "it is this"}',
        "sasl.password=it,x=y",
        "API_KEY=it",
    ],
)
def test_values_of_secret_names_are_masked(text: str) -> None:
    masked = Redactor().text(text)
    assert "it" not in masked.replace("security", "")
    assert MASK in masked


def test_properties_with_secret_names_are_masked() -> None:
    given = {"auto.offset.reset": "earliest", "ssl.key.password": "x"}
    assert redact_properties(given) == {"auto.offset.reset": "earliest", "ssl.key.password": MASK}


def test_only_known_names_stay_readable_in_quotes() -> None:
    text = "column \"id\" of 'users' cannot be 'Anna Smith'"
    assert redact_values(text, {"id", "users"}) == "column \"id\" of 'users' cannot be '...'"


@pytest.mark.parametrize("text", ["a." * 50_000, "password" * 12_000, "'" + "token" * 20_000, "'token" + " " * 100_000])
def test_redaction_takes_linear_time(text: str) -> None:
    began = time.process_time()
    Redactor().text(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--token=abc", f"--token={MASK}"),
        ("options=sasl.password=abc", f"options=sasl.password={MASK}"),
        (f"{'x.' * 200}password.{'y' * 300}=abc", f"{'x.' * 200}password.{'y' * 300}={MASK}"),
        ("https://host/?api_key=abc", f"https://host/?api_key={MASK}"),
        ("passwords are secret", "passwords are secret"),
    ],
)
def test_names_of_secrets_are_recognized(text: str, masked: str) -> None:
    assert Redactor().text(text) == masked


@pytest.mark.parametrize("name", ["sasl.password", "SASL-Password"])
def test_a_password_with_commas_is_masked(tmp_path: Path, name: str) -> None:
    options = f"{name}=abc,defghij,ssl.ca.location=ca.pem"
    mask = redactor_for(resolve_settings({"kafka_client_options": options}, environ={}), tmp_path)
    assert mask.text("the password is abc,defghij with ca.pem") == f"the password is {MASK} with ca.pem"


@pytest.mark.parametrize("shown", ["p%40ss%2Fword", "p@ss/word"])
def test_only_the_password_of_a_url_is_masked(tmp_path: Path, shown: str) -> None:
    settings = {
        "views_postgres_url": "postgresql://anna:p%40ss%2Fword@host:5432/db",
        "notifiers_smtp_url": "smtp://[broken",
    }
    mask = redactor_for(resolve_settings(settings, environ={}), tmp_path)
    assert mask.text(f'user "anna" with {shown} was refused') == f'user "anna" with {MASK} was refused'


def test_an_unreadable_secret_does_not_prevent_masking_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISSING", raising=False)
    monkeypatch.setenv("THERE", "hunter-two")
    (tmp_path / "secrets" / "a-folder").mkdir(parents=True)
    (tmp_path / "secrets" / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "secrets" / "kept").write_text("hunter-three")
    options = "sasl.username=${env:MISSING},sasl.password=${env:THERE},x=${file:/a\0b}"
    mask = redactor_for(resolve_settings({"kafka_client_options": options}, environ={}), tmp_path)
    assert mask.text("hunter-two and hunter-three") == f"{MASK} and {MASK}"
