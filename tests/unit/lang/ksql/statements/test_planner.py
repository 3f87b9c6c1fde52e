"""Statements become plans: the golden scripts, and the effect of planning on the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan.actions import Action, CreateSource, DropSource
from headrace.plan.catalog import Catalog
from headrace.plan.relations import Kind
from tests import golden
from tests.ksql_parsing import parse

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', value_format='JSON');"
COUNTS = "CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"


@pytest.mark.parametrize("script", golden.scripts(), ids=lambda script: script.stem)
def test_a_script_has_its_golden_plan(script: Path) -> None:
    found = golden.checked(script)
    assert [error.code for error in found.errors] == golden.codes(script)
    assert golden.outcome(found) == golden.text_of(script).read_text(encoding="utf-8"), "if it is right: make bless"


def test_every_golden_plan_has_a_script() -> None:
    assert {golden.text_of(script) for script in golden.scripts()} == set(golden.FOLDER.glob("*/*.txt"))


# -- the catalog ----------------------------------------------------------------------------------------------------


def planned(text: str, catalog: Catalog) -> list[Action]:
    planner = Planner(catalog)
    return [planner.plan(statement, own) for statement, own in parse(text).statements]


def test_a_statement_sees_the_sources_of_earlier_statements() -> None:
    catalog = Catalog()
    _, made = planned(CLICKS + COUNTS, catalog)
    assert isinstance(made, CreateSource)
    assert made.query is not None
    assert (made.source.kind, made.source.topic, made.query.id) == (Kind.TABLE, "COUNTS", "CTAS_COUNTS_0")
    assert (catalog.readers("CLICKS"), catalog.writers("COUNTS")) == (["CTAS_COUNTS_0"], ["CTAS_COUNTS_0"])


def test_a_materialized_table_has_its_declared_indexes() -> None:
    catalog = Catalog()
    columns = "(id INT PRIMARY KEY, city STRING, `Amount` DOUBLE)"
    planned(
        f"CREATE SOURCE TABLE t {columns} WITH (kafka_topic='t', format='JSON', indexes='city; `Amount`, CITY;');"
        f"{CLICKS} CREATE TABLE counts WITH (indexes='n') AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;",
        catalog,
    )
    assert catalog.sources["T"].indexes == (("CITY",), ("Amount", "CITY"))
    assert catalog.sources["COUNTS"].indexes == (("N",),)
    for text in (
        f"CREATE TABLE u {columns} WITH (kafka_topic='t', format='JSON', indexes='city');",
        "CREATE STREAM u (city STRING) WITH (kafka_topic='t', format='JSON', indexes='city');",
        f"CREATE SOURCE TABLE u {columns} WITH (kafka_topic='t', format='JSON', indexes='town');",
        f"CREATE SOURCE TABLE u {columns} WITH (kafka_topic='t', format='JSON', indexes='city,');",
    ):
        with pytest.raises(HeadraceError, match="bad-property"):
            planned(text, catalog)


def test_a_refused_statement_changes_nothing() -> None:
    catalog = Catalog()
    planned(CLICKS, catalog)
    before = catalog.copy()
    with pytest.raises(HeadraceError):
        planned("CREATE TABLE counts AS SELECT page, nobody(page) AS n FROM clicks GROUP BY page;", catalog)
    assert catalog == before


def test_drop_terminates_the_query_that_writes_to_the_source() -> None:
    catalog = Catalog()
    planned(CLICKS + COUNTS, catalog)
    with pytest.raises(HeadraceError, match="source-in-use"):
        planned("DROP STREAM clicks;", catalog)
    (dropped,) = planned("DROP TABLE counts DELETE TOPIC;", catalog)
    assert isinstance(dropped, DropSource)
    assert (dropped.queries, dropped.delete_topic) == (("CTAS_COUNTS_0",), True)
    assert not catalog.queries
    planned("DROP STREAM clicks;", catalog)
    assert not catalog.sources


def test_a_replacement_names_the_query_that_it_replaces() -> None:
    catalog = Catalog()
    planned(CLICKS + "CREATE STREAM pages AS SELECT id, page FROM clicks;", catalog)
    (made,) = planned("CREATE OR REPLACE STREAM pages AS SELECT id, page FROM clicks WHERE id > 0;", catalog)
    assert isinstance(made, CreateSource)
    assert made.replaces == "CSAS_PAGES_0"


def test_a_copy_of_the_catalog_does_not_change() -> None:
    catalog = Catalog()
    planned(CLICKS, catalog)
    before = catalog.copy()
    planned(COUNTS, catalog)
    assert (set(before.sources), before.queries) == ({"CLICKS"}, {})
