"""What must not leave the machine is taken out of texts."""

from __future__ import annotations

import pytest

from headrace.cli.masking import MASK, Mask, mask_of, masked_properties, without_values
from headrace.settings import resolve

OPTIONS = "security.protocol=SASL_SSL,sasl.username=anna,sasl.password=hunter2,ssl.ca.location=ca.pem"


def test_secrets_of_the_settings_are_found_anywhere() -> None:
    mask = mask_of(resolve({"kafka_options": OPTIONS}, environ={}))
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
def test_what_is_called_a_secret_is_one(text: str) -> None:
    masked = Mask().text(text)
    assert "it" not in masked.replace("security", "")
    assert MASK in masked


def test_properties_are_masked_by_their_names() -> None:
    given = {"auto.offset.reset": "earliest", "ssl.key.password": "x"}
    assert masked_properties(given) == {"auto.offset.reset": "earliest", "ssl.key.password": MASK}


def test_only_known_names_stay_in_quotes() -> None:
    text = "column \"id\" of 'users' cannot be 'Anna Smith'"
    assert without_values(text, {"id", "users"}) == "column \"id\" of 'users' cannot be '...'"
