"""Errors: codes, one text, one JSON shape, and pickling."""

from __future__ import annotations

import pickle
import re

import pytest

from headrace.errors import CODES, HeadraceError, Retry, Stop, UnknownTopic, UserError


@pytest.mark.parametrize("error", CODES.values(), ids=CODES)
def test_every_error_is_well_declared(error: type[HeadraceError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error.code)
    assert error.__doc__
    assert sum(issubclass(error, kind) for kind in (UserError, Retry, Stop)) == 1


@pytest.mark.parametrize("error", CODES.values(), ids=CODES)
def test_every_error_is_pickled_completely(error: type[HeadraceError]) -> None:
    again = pickle.loads(pickle.dumps(error("what", where="where", fix="fix")))
    assert type(again) is error
    assert again.as_dict() == {"code": error.code, "what": "what", "where": "where", "fix": "fix"}


def test_the_text_contains_the_given_fields() -> None:
    assert str(UnknownTopic("no")) == "unknown-topic: no"
    full = UnknownTopic('topic "x" does not exist', where="line 3", fix="create it")
    assert str(full) == 'unknown-topic: topic "x" does not exist\n  at line 3\n  fix: create it'


def test_a_duplicate_code_is_refused() -> None:
    with pytest.raises(TypeError, match="twice"):
        type("Again", (UserError,), {}, code="unknown-topic")
    assert CODES["unknown-topic"] is UnknownTopic
