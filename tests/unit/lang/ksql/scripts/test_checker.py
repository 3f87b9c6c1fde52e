"""All errors of a script together, each reported once and at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadScript, HeadraceError
from headrace.lang.ksql.scripts.checker import CheckedScript, check_script
from headrace.lang.script_files import read_script
from headrace.plan.actions import CreateSource
from headrace.plan.catalog import Catalog
from tests.unit.lang.ksql.corpus import cases

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', value_format='JSON');\n"


def refusals(text: str) -> list[str]:
    return [f"{error.code} {error.where}" for error in check_script(text, "a.ksql").errors]


def test_errors_of_all_statements_are_reported_in_the_order_of_the_text() -> None:
    script = (
        CLICKS
        + "CREATE STREAM a AS SELECT id, pge FROM clicks;\n"
        + "CREATE STREM b AS SELECT id FROM clicks;\n"
        + "CREATE STREAM c AS\n  SELECT id FROM nobody;\n"
    )
    assert refusals(script) == [
        "column-not-found a.ksql:2:31",
        "syntax-error a.ksql:3:8",
        "source-not-found a.ksql:5:18",
    ]


def test_an_error_shows_its_line_and_a_fix() -> None:
    (error,) = check_script(CLICKS + "CREATE STREAM a AS\n\tSELECT id, pge FROM clicks;", "a.ksql").errors
    assert str(error).splitlines()[1:] == [
        "  at a.ksql:3:13",
        "    \tSELECT id, pge FROM clicks;",
        "    \t           ^^^",
        '  fix: did you mean "PAGE"?',
    ]


def test_a_position_counts_in_the_text_before_substitution() -> None:
    script = (
        "DEFINE wide = 'a_long_name_that_is_not_there';\n" + CLICKS + "SELECT ${wide}, pge FROM clicks EMIT CHANGES;"
    )
    assert refusals(script) == ["column-not-found a.ksql:3:8", "column-not-found a.ksql:3:17"]


def test_a_statement_sees_the_sources_of_earlier_statements() -> None:
    found = check_script(
        "SET 'auto.offset.reset' = 'earliest';\n" + CLICKS + "CREATE STREAM a AS SELECT * FROM clicks;"
    )
    assert not found.errors
    assert [planned.where for planned in found.planned] == ["line 1:1", "line 2:1", "line 3:1"]
    assert isinstance(found.planned[-1].action, CreateSource)
    assert set(found.catalog.sources) == {"CLICKS", "A"}


def test_properties_apply_to_later_statements() -> None:
    made = "CREATE STREAM {} AS SELECT * FROM clicks;"
    prefix = "SET 'ksql.output.topic.name.prefix' = 'x-';"
    found = check_script(CLICKS + made.format("a") + prefix + made.format("b"))
    assert [found.catalog.sources[name].topic for name in ("A", "B")] == ["A", "x-B"]


def test_the_given_catalog_is_not_changed() -> None:
    before = check_script(CLICKS).catalog
    found = check_script("CREATE STREAM a AS SELECT * FROM clicks;", catalog=before)
    assert (set(before.sources), set(found.catalog.sources)) == ({"CLICKS"}, {"CLICKS", "A"})
    assert refusals("CREATE STREAM a AS SELECT * FROM clicks;")
    assert check_script("", catalog=Catalog()).statements == 0


# -- what only follows ----------------------------------------------------------------------------------------------

BROKEN = {
    "refused": "CREATE STREAM s (id INTT KEY) WITH (kafka_topic='s', value_format='JSON');\n",
    "no syntax": "CREATE OR REPLACE STREAM IF NOT EXISTS s (id INT KEY page STRING) WITH (kafka_topic='s');\n",
    "quoted": "CREATE STREAM `S` (id INTT KEY) WITH (kafka_topic='s', value_format='JSON');\n",
    "replaced": "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');\n"
    "CREATE OR REPLACE STREAM s (id INT KEY, v INTT, w INT) WITH (kafka_topic='s', value_format='JSON');\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(
    "following",
    [
        "CREATE STREAM a AS SELECT w FROM s;",
        "CREATE STREAM a AS SELECT id, w FROM s; CREATE STREAM b AS SELECT * FROM a;",
        "INSERT INTO s (id, w) VALUES (1, 2);",
        "SELECT w FROM s EMIT CHANGES;",
        "ASSERT VALUES s (id, w) VALUES (1, 2);",
        "EXPLAIN SELECT w FROM s;",
    ],
)
def test_consequences_of_an_error_are_counted_but_not_reported(broken: str, following: str) -> None:
    found = check_script(broken + following)
    assert len(found.errors) == 1
    assert found.following == following.count(";")
    assert found.statements == (broken + following).count(";")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TYPE t AS STRUCT<a INTT>; CREATE STREAM s (id INT KEY, v t) WITH (kafka_topic='s', format='JSON');",
        "DEFINE n = 5; CREATE STREAM s (id INT KEY) WITH (kafka_topic='s', value_format='JSON', partitions=${n});",
        "CREATE STREAM s AS SELECT * FROM nobody; TERMINATE CSAS_S_0;",
        "RUN SCRIPT 'nowhere.ksql'; SELECT * FROM somebody EMIT CHANGES;",
        "CREATE STREAM s AS SELECT * FROM nobody; DESCRIBE s;",
        "CREATE STREAM s AS SELECT * FROM nobody; EXPLAIN CSAS_S_0;",
    ],
    ids=["type", "variable", "query", "script", "description", "plan"],
)
def test_missing_objects_after_an_error_are_consequences(script: str) -> None:
    found = check_script(script)
    assert (len(found.errors), found.following) == (1, 1)


@pytest.mark.parametrize(
    "second",
    [
        "CREATE STREAM b AS SELECT * FROM nobody;",
        "CREATE STREAM b WITH (value_fromat='JSON') AS SELECT * FROM s;",
        "DROP STREAM s; CREATE STREAM b AS SELECT * FROM s;",
    ],
    ids=["another source", "another mistake", "dropped anyway"],
)
def test_an_independent_error_is_reported(second: str) -> None:
    assert len(check_script(BROKEN["refused"] + second).errors) == 2


def test_an_error_on_a_name_that_was_declared_later_is_reported() -> None:
    made = "CREATE STREAM s (id INT KEY) WITH (kafka_topic='s', value_format='JSON');"
    found = check_script(BROKEN["refused"] + made + "CREATE STREAM a AS SELECT id, w FROM s;")
    assert [error.code for error in found.errors] == ["bad-type", "column-not-found"]


# -- scripts that run scripts ---------------------------------------------------------------------------------------


def check_file(path: Path) -> CheckedScript:
    return check_script(read_script(path), str(path))


def test_a_script_path_is_relative_to_the_script_that_runs_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "main.ksql").write_text("RUN SCRIPT 'inner/one.ksql'; SELECT ${column} FROM clicks EMIT CHANGES;")
    (tmp_path / "inner" / "one.ksql").write_text("RUN SCRIPT 'two.ksql'; DEFINE column = 'page';")
    (tmp_path / "inner" / "two.ksql").write_text(CLICKS + "SELECT pge FROM clicks EMIT CHANGES;")
    found = check_file(tmp_path / "main.ksql")
    (error,) = found.errors
    assert (error.code, error.where) == ("column-not-found", f"{tmp_path / 'inner' / 'two.ksql'}:2:8")
    assert len(found.planned) == 3


def test_a_script_that_runs_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ksql").write_text("RUN SCRIPT 'b.ksql';")
    (tmp_path / "b.ksql").write_text("\nRUN SCRIPT './a.ksql';")
    (error,) = check_file(tmp_path / "a.ksql").errors
    assert (error.code, error.where) == ("bad-script", f"{tmp_path / 'b.ksql'}:2:1")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ksql").write_bytes(b"\xff\xfe")
    with pytest.raises(BadScript, match="not UTF-8"):
        read_script(tmp_path / "a.ksql")


# -- every refusal --------------------------------------------------------------------------------------------------


def told(error: HeadraceError) -> bool:
    return bool(error.where and getattr(error, "excerpt", None) and error.fix)


def test_every_error_of_the_corpus_has_a_place_an_excerpt_and_a_fix() -> None:
    lacking = [
        (case, str(error))
        for case, script, _ in cases()
        for error in check_script(script, "a.ksql").errors
        if not told(error)
    ]
    assert not lacking


def test_all_errors_of_one_statement_are_reported_in_order() -> None:
    checked = check_script(
        "CREATE STREAM o (id INT KEY, amount DOUBLE, city STRING) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');\n"
        "CREATE STREAM b AS SELECT id, amout, UCASE(amount) AS u, TRANSFORM(ARRAY[1], x => x + y) AS t\n"
        "  FROM o WHERE town = 'x' AND amount > 'a';"
    )
    assert [(error.code, error.where) for error in checked.errors] == [
        ("column-not-found", "line 2:31"),
        ("wrong-arguments", "line 2:38"),
        ("column-not-found", "line 2:87"),
        ("column-not-found", "line 3:16"),
    ]
    assert (checked.statements, checked.refused) == (2, 1)


def test_a_remote_client_cannot_read_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef")
    (error,) = check_script(f"RUN SCRIPT '{tmp_path}/secret';", reads_files=False).errors
    assert (error.code, "0123" in str(error)) == ("unsupported", False)


def test_a_script_of_nothing_but_errors_is_refused_soon() -> None:
    assert len(check_script("';" * 99_999).errors) == 100
