"""Completions at the cursor, and syntax colours."""

from __future__ import annotations

import pytest

from headrace.cli.shell.catalog_cache import CatalogNames, catalog_names
from headrace.cli.shell.completion import complete
from headrace.cli.shell.highlighter import highlight
from headrace.lang.ksql.grammar.automaton import words
from headrace.lang.ksql.grammar.keywords import keywords
from headrace.testing import World
from tests.unit.testing.test_listings import MADE

KNOWN = CatalogNames(
    {"CLICKS": ("ID", "PAGE", "From"), "COUNTS": ("PAGE", "N")},
    ("clicks", "COUNTS", "c-d"),
    ("COUNT", "COUNT_DISTINCT", "LEN"),
    ("CTAS_COUNTS_1",),
)


def offered(before: str) -> list[str]:
    before, _, after = before.partition("|")
    return [offer.word for offer in complete(before, KNOWN, after)]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT * FROM ", ["CLICKS", "COUNTS"]),
        ("select * from cl", ["clicks"]),
        ("SELECT 1; DESCRIBE CO", ["COUNTS"]),
        ("DROP TABLE c", ["clicks", "counts"]),
        ("PRINT c", ["clicks", "COUNTS", "`c-d`"]),
        ("TERMINATE CT", ["CTAS_COUNTS_1"]),
        ("DESCRIBE FUNCTION l", ["len"]),
        ("SELECT c.P|FROM clicks AS c", ["PAGE"]),
        ("SELECT n|FROM counts; SELECT id FROM clicks;", ["n", "not", "notifier", "notifiers", "notify", "null"]),
        ("SELECT * FROM clicks c JOIN counts n ON c.", ["ID", "PAGE", "`From`"]),
        ("SELECT * FROM clicks c JOIN counts AS n ON c.page = n.", ["PAGE", "N"]),
        ("SELECT * FROM clicks WHERE `F", ["`From`"]),
        ("SELECT * FROM clicks WHERE pa", ["page", "partition", "pause"]),
        ("SELECT COUNT_", ["COUNT_DISTINCT"]),
        ("sel", ["select"]),
        ("\\d", ["d", "d+", "dq", "dp", "df"]),
        ("\\d CL", ["CLICKS"]),
        ("\\df le", ["len"]),
        ("\\o ", ["table", "json", "csv", "csv-exact"]),
        ("\\i x", []),
    ],
)
def test_completions_fit_the_cursor(before: str, expected: list[str]) -> None:
    assert offered(before) == expected


def test_a_completion_replaces_the_typed_prefix() -> None:
    (offer,) = complete("SELECT * FROM cl", KNOWN)
    assert (offer.word, offer.kind, offer.length) == ("clicks", "source", 2)


def test_names_are_read_from_listings() -> None:
    world = World()
    world.execute(MADE + "DESCRIBE STREAMS; DESCRIBE TABLES; LIST TOPICS; LIST FUNCTIONS; LIST QUERIES;")
    known = catalog_names(answer.entity() for answer in world.answers)
    assert known.sources == {"CLICKS": ("ID", "From", "PAGE", "H"), "COUNTS": ("PAGE", "N")}
    assert (known.topics, known.queries) == (("COUNTS", "clicks"), ("CTAS_COUNTS_0",))
    assert "SUBSTRING" in known.functions


def test_keywords_come_from_the_grammar() -> None:
    assert keywords() == {word for word in words().values() if word.replace("_", "").isalpha()}


def test_tokens_are_coloured() -> None:
    text = "SELECT len(`a`), 1.5, 'x' -- y\nFROM ${z} # 'open"
    fragments = list(highlight(text, {"LEN"}))
    assert "".join(part for _, part in fragments) == text
    kinds = {part.strip(): kind for kind, part in fragments if part.strip()}
    wanted = {
        "SELECT": "keyword",
        "len": "function",
        "`a`": "quoted",
        "1.5": "number",
        "'x'": "text",
        "-- y": "comment",
    }
    assert {part: kinds[part] for part in wanted} == wanted
    assert (kinds["${z}"], kinds["#"], kinds["'open"]) == ("variable", "bad", "bad")
