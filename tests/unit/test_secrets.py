from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headrace.errors import BadSecret, UnknownSecret
from headrace.secrets import (
    MASK,
    Secret,
    delete_secret,
    is_reference,
    redact,
    resolve_secrets,
    save_secret,
    secret_names,
)


def test_a_reference_is_resolved_from_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "from-env")
    (tmp_path / "file").write_text("from-file\n")
    save_secret("db", "kept, with spaces ", tmp_path)
    text = f"a ${{env:OURS}} b ${{file:{tmp_path / 'file'}}} c ${{secret:db}} ${{other}}"
    assert resolve_secrets(text, tmp_path).reveal() == "a from-env b from-file c kept, with spaces  ${other}"
    assert resolve_secrets("${secret:db}", tmp_path, str.upper).reveal() == "kept, with spaces "
    assert resolve_secrets("x${secret:db}", tmp_path, str.upper).reveal() == "xKEPT, WITH SPACES "


@pytest.mark.parametrize("text", ["${env:NOT_THERE}", "${file:/not/there}", "${file:.}", "${secret:nothing}"])
def test_a_missing_secret_raises_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownSecret):
        resolve_secrets(text, tmp_path)


@pytest.mark.parametrize("name", ["../log.db", "/etc/passwd", "", ".", "a/b", "a\0b", "a" * 65, "ä"])
def test_a_secret_name_cannot_lead_to_another_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadSecret):
        save_secret(name, "x", tmp_path)
    with pytest.raises(BadSecret):
        resolve_secrets(f"x${{secret:{name}}}", tmp_path)


def test_only_its_owner_can_read_a_stored_secret(tmp_path: Path) -> None:
    save_secret("db", "first", tmp_path)
    save_secret("db", "second", tmp_path)
    path = tmp_path / "secrets" / "db"
    assert path.read_text() == "second"
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent)] == [0o600, 0o700]
    assert secret_names(tmp_path) == ["db"]
    delete_secret("db", tmp_path)
    assert secret_names(tmp_path) == []
    with pytest.raises(UnknownSecret):
        delete_secret("db", tmp_path)


def test_a_secret_is_masked_in_text() -> None:
    secret = Secret("planted")
    assert {str(secret), repr(secret), f"{secret}", f"{[secret]}"} == {MASK, f"[{MASK}]"}
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_resolved_secrets_are_masked_in_texts(tmp_path: Path) -> None:
    save_secret("odd", 'a"b/planted', tmp_path)
    resolve_secrets("${secret:odd}", tmp_path)
    assert redact('x a"b/planted y a\\"b/planted z a%22b%2Fplanted') == f"x {MASK} y {MASK} z {MASK}"


def test_a_text_is_a_reference_only_as_a_whole() -> None:
    assert [is_reference(text) for text in ("${env:WORD}", "${secret:word}", "x${env:WORD}", "hush")] == [
        True,
        True,
        False,
        False,
    ]
