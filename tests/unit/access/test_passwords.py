from __future__ import annotations

import hashlib
from typing import Any

import pytest

from headrace.access.passwords import hash_password, verify_password
from headrace.errors import WeakPassword


def test_only_the_correct_password_matches() -> None:
    kept = hash_password("correct horse")
    assert "horse" not in kept
    assert verify_password("correct horse", kept)
    assert not verify_password("correct horsf", kept)
    assert not verify_password("", kept)
    assert hash_password("correct horse") != kept  # each has a salt of its own


def test_checking_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[tuple[int, int, int]] = []
    really = hashlib.scrypt

    def noted(password: bytes, **given: Any) -> bytes:
        costs.append((given["n"], given["r"], given["p"]))
        return really(password, **given)

    kept = hash_password("correct horse")
    monkeypatch.setattr(hashlib, "scrypt", noted)
    assert not verify_password("correct horse", None)
    assert verify_password("correct horse", kept)
    assert costs[0] == costs[1]


def test_a_hash_contains_its_parameters() -> None:
    """One with other parameters, of an older version say, still counts."""
    salt = b"0123456789abcdef"
    digest = hashlib.scrypt(b"an old password", salt=salt, n=1024, r=8, p=1, dklen=32)
    import base64

    old = f"scrypt$1024$8$1${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    assert verify_password("an old password", old)
    assert not verify_password("another password", old)


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
def test_passwords_that_are_too_short_or_too_long_are_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        hash_password(password)
