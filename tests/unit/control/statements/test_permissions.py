"""What principals can read and do on a node, compared with plain sets of their grants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Grant, Privilege, ResourceType
from headrace.access.principal import Principal
from headrace.control.node import Node
from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.serving.result_rows import ResultRowWriter
from headrace.control.serving.transient_query import TransientQuery
from headrace.control.statements.permissions import redact_errors
from headrace.errors import (
    BadRowFilter,
    BadTopicName,
    ColumnNotFound,
    HeadraceError,
    NotAllowed,
    RowsHidden,
    SourceNotFound,
    StatementError,
)
from headrace.log.embedded import EmbeddedLog
from headrace.plan.actions import TransientSelect
from headrace.plan.relations import Kind as Relational
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.wait import wait_until

ROWS = {"A": [(1, 0), (2, 1), (3, 2)], "B": [(1, 0), (2, 1), (4, 2)], "AB": [(5, 0), (6, 1), (7, 1)]}
"""Streams of rows (ID, G), each over the topic of its name in small letters."""
REFUSED = NotAllowed, SourceNotFound
"""What is hidden is unknown."""
PEOPLE = [(1, "EU", "ann"), (2, "US", "bob"), (3, "EU", "cid")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("permits") / "data"
    with EmbeddedLog(folder) as log, Node(log, Settings.of(storage_data=folder), isolation=Nowhere()) as node:
        for name, rows in ROWS.items():
            made = f"(ID INT KEY, G INT) WITH (KAFKA_TOPIC='{name.lower()}', VALUE_FORMAT='JSON', PARTITIONS=1);"
            node.execute(f"CREATE STREAM {name} {made}")
            for row in rows:
                node.execute(f"INSERT INTO {name} VALUES {row};")
        shape = "(ID INT PRIMARY KEY, REGION STRING, NAME STRING) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON'"
        node.execute(f"CREATE TABLE RAW {shape}, PARTITIONS=1); CREATE SOURCE TABLE PEOPLE {shape});")
        for person in PEOPLE:
            node.execute(f"INSERT INTO RAW VALUES {person};")
        node.execute(
            "CREATE STREAM VISITS (ID INT KEY) WITH (KAFKA_TOPIC='visits', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        for number in (1, 2, 3):  # after the people: what is joined is what was there before
            node.execute(f"INSERT INTO VISITS VALUES ({number});")
        wait_until(lambda: _pulled(node, "SELECT * FROM PEOPLE;") == PEOPLE)
        yield node


def _rights(*grants: str) -> Rights:
    """Each like `read source A where G = 1`."""
    return Rights(Principal("alice"), [_grant(text) for text in grants])


def _grant(text: str) -> Grant:
    words, _, where = text.partition(" where ")
    return Grant.of(*words.split(), where=where or None)


ALL = _rights(*(f"{deed} {kind} *" for deed in Privilege for kind in ResourceType))


def _pulled(node: Node, text: str, rights: Rights = ALL) -> list[tuple[Any, ...]]:
    """The rows that a pull or push query returns for the existing records."""
    ask = node.plan_transient_query(text, rights=rights)
    assert isinstance(ask, TransientSelect)
    if ask.push or ask.query.sources[0].relation.kind is Relational.STREAM:
        follower, rows = TransientQuery(node.log, ask.query, from_beginning=True, bounded=True), ResultRowWriter(ask)
        found = [row for entries in iter(follower.step, None) for row in rows.render(entries)]
    else:
        with node.pull_queries.execute(ask) as pulled:
            found = [row for batch in pulled.batches for row in batch]
    return sorted(tuple(json.loads(row.text)) for row in found if not row.deleted)


# -- random grants, random statements -------------------------------------------------------------------------------

_PATTERNS = ["A", "B", "A*", "AB", "*"]
_reads = st.tuples(st.sampled_from(_PATTERNS), st.none() | st.integers(0, 2)).map(
    lambda one: Grant(Privilege.READ, ResourceType.SOURCE, one[0], None if one[1] is None else f"G = {one[1]}")
)
_topics = st.sampled_from(["a", "b", "a*", "ab"]).map(lambda name: Grant(Privilege.READ, ResourceType.TOPIC, name))
_writes = st.sampled_from(
    [Grant(Privilege.CREATE, ResourceType.SOURCE, "MY*"), Grant(Privilege.WRITE, ResourceType.SOURCE, "B")]
)
_grants = st.lists(_reads | _topics | _writes, max_size=5)
_name = st.sampled_from(sorted(ROWS))


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _seen(grants: list[Grant], name: str) -> set[tuple[int, int]]:
    """The oracle: the union of what each grant shows of a stream."""
    seen: set[tuple[int, int]] = set()
    for grant in grants:
        of_source = (
            grant.kind is ResourceType.SOURCE and grant.privilege is Privilege.READ and _matches(grant.pattern, name)
        )
        if of_source and grant.where is not None:
            seen |= {row for row in ROWS[name] if row[1] == int(grant.where.removeprefix("G = "))}
        elif of_source or (grant.kind is ResourceType.TOPIC and _matches(grant.pattern, name.lower())):
            seen |= set(ROWS[name])
    return seen


def _is_named(grants: list[Grant], name: str) -> bool:
    """Whether any grant shows the stream at all, perhaps without a row of today."""
    return any(
        (g.kind is ResourceType.SOURCE and g.privilege is Privilege.READ and _matches(g.pattern, name))
        or (g.kind is ResourceType.TOPIC and _matches(g.pattern, name.lower()))
        for g in grants
    )


def _got(node: Node, text: str, rights: Rights) -> list[tuple[Any, ...]] | None:
    """None if it is refused."""
    try:
        return _pulled(node, text, rights)
    except REFUSED:
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(grants=_grants, name=_name, other=_name, limit=st.integers(0, 3))
def test_a_query_is_allowed_only_on_granted_rows(
    node: Node, grants: list[Grant], name: str, other: str, limit: int
) -> None:
    rights = Rights(Principal("alice"), grants)
    seen, others = _seen(grants, name), _seen(grants, other)
    allowed = _is_named(grants, name)
    for text in (
        f"SELECT * FROM {name};",
        f"SELECT X.ID, X.G FROM {name} X;",
        f"SELECT * FROM {name} EMIT CHANGES;",
        f"SELECT X.ID, X.G FROM (SELECT * FROM {name}) X EMIT CHANGES;",
        f"SELECT ID, G FROM {name} WHERE G = 0 OR 1 = 1;",
        f"SELECT ID, G FROM {name} WHERE NOT (G = 0) OR G = 0 EMIT CHANGES;",
    ):
        assert _got(node, text, rights) == (sorted(seen) if allowed else None), text
    assert _got(node, f"SELECT * FROM {name} WHERE G > {limit};", rights) == (
        sorted(row for row in seen if row[1] > limit) if allowed else None
    )
    both = allowed and _is_named(grants, other)
    if name != other:
        joined = (
            f"SELECT L.ID, L.G, R.G FROM {name} L JOIN {other} R WITHIN 1 DAY GRACE PERIOD 1 DAY ON L.ID = R.ID "
            "EMIT CHANGES;"
        )
        pairs = sorted((i, g, h) for i, g in seen for j, h in others if i == j)
        assert _got(node, joined, rights) == (pairs if both else None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(grants=_grants, name=_name)
def test_listings_contain_only_what_the_principal_may_read(node: Node, grants: list[Grant], name: str) -> None:
    rights = Rights(Principal("alice"), grants)
    told: list[Any] = []
    node.execute("LIST STREAMS; LIST TOPICS; SHOW STREAMS EXTENDED;", rights=rights, on_done=told.append)
    streams, topics, extended = (outcome.answer.body() for outcome in told)
    assert {one["name"] for one in streams["streams"]} - {"VISITS"} == {one for one in ROWS if _is_named(grants, one)}
    of_topics = [g for g in grants if g.kind is ResourceType.TOPIC]
    expected = {one.lower() for one in ROWS if any(_matches(g.pattern, one.lower()) for g in of_topics)}
    assert {one["name"] for one in topics["topics"]} == expected
    assert {one["name"] for one in extended["sourceDescriptions"]} == {one["name"] for one in streams["streams"]}
    counted = {one["topic"] for one in extended["sourceDescriptions"] if one["statistics"]}
    assert counted <= expected  # how many records there are tells of those that are hidden
    for text, allowed in (
        (f"DESCRIBE {name};", _is_named(grants, name)),
        (f"EXPLAIN SELECT * FROM {name};", _is_named(grants, name)),
    ):
        assert _may(node, text, rights) == allowed, text
    assert _prints(node, name.lower(), rights) == (name.lower() in expected)


def _may(node: Node, text: str, rights: Rights) -> bool:
    try:
        node.execute(text, rights=rights)
    except REFUSED:
        return False
    return True


def _prints(node: Node, topic: str, rights: Rights) -> bool:
    try:
        return isinstance(node.plan_transient_query(f"PRINT '{topic}' FROM BEGINNING;", rights=rights), TopicPrinter)
    except REFUSED:
        return False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(grants=_grants, name=_name)
def test_persistent_queries_need_unfiltered_read_access(node: Node, grants: list[Grant], name: str) -> None:
    rights = Rights(Principal("alice"), grants)
    everything = any(
        ((g.privilege, g.kind, g.where) == (Privilege.READ, ResourceType.SOURCE, None) and _matches(g.pattern, name))
        or (g.kind is ResourceType.TOPIC and _matches(g.pattern, name.lower()))
        for g in grants
    )
    may_create = Grant(Privilege.CREATE, ResourceType.SOURCE, "MY*") in grants
    may_write = Grant(Privilege.WRITE, ResourceType.SOURCE, "B") in grants
    made = _may(node, f"CREATE STREAM MY_COPY AS SELECT * FROM {name};", rights)
    assert made == (everything and may_create)
    if made:
        node.execute("DROP STREAM MY_COPY DELETE TOPIC;")
    if name != "B":
        before = set(node.catalog.queries)
        inserted = _may(node, f"INSERT INTO B SELECT * FROM {name};", rights)
        assert inserted == (everything and may_write)
        for query in set(node.catalog.queries) - before:
            node.execute(f"TERMINATE `{query}`;")
    assert set(node.catalog.sources) == {*ROWS, "RAW", "PEOPLE", "VISITS"}


# -- each way around ------------------------------------------------------------------------------------------------

EU = (
    "read source PEOPLE where REGION = 'EU'",
    "read source A",
    "read source VISITS",
    "create source MY_*",
    "write source MY_*",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM PEOPLE;", [PEOPLE[0], PEOPLE[2]]),
        ("SELECT NAME FROM PEOPLE WHERE ID = 2;", []),
        ("SELECT NAME FROM PEOPLE WHERE ID = 2 OR TRUE;", [("ann",), ("cid",)]),
        ("SELECT NAME FROM PEOPLE WHERE REGION = 'US';", []),
        ("SELECT P.NAME FROM PEOPLE P WHERE P.REGION <> 'EU';", []),
        ("SELECT COUNT(*) FROM PEOPLE;", [(2,)]),
        ("SELECT REGION, COUNT(*) FROM PEOPLE GROUP BY REGION;", [("EU", 2)]),
        ("SELECT SUM(ID) FROM PEOPLE WHERE ID < 3;", [(1,)]),
        ("SELECT ID, NAME FROM PEOPLE ORDER BY ID DESC LIMIT 2;", [(1, "ann"), (3, "cid")]),
        ("SELECT S.NAME FROM (SELECT * FROM PEOPLE) S EMIT CHANGES;", [("ann",), ("cid",)]),
        ("SELECT * FROM PEOPLE EMIT CHANGES;", [PEOPLE[0], PEOPLE[2]]),
        ("SELECT V.ID, P.NAME FROM VISITS V JOIN PEOPLE P ON V.ID = P.ID EMIT CHANGES;", [(1, "ann"), (3, "cid")]),
    ],
)
def test_no_pull_query_bypasses_a_row_filter(node: Node, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert _pulled(node, text, _rights(*EU)) == sorted(expected)


def test_a_left_join_does_not_reveal_hidden_rows(node: Node) -> None:
    text = "SELECT V.ID, P.NAME FROM VISITS V LEFT JOIN PEOPLE P ON V.ID = P.ID EMIT CHANGES;"
    assert _pulled(node, text, _rights(*EU)) == [(1, "ann"), (2, None), (3, "cid")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE TABLE MY_PEOPLE AS SELECT * FROM PEOPLE;", RowsHidden),
        ("CREATE TABLE MY_COUNT AS SELECT REGION, COUNT(*) FROM PEOPLE GROUP BY REGION;", RowsHidden),
        ("CREATE STREAM MY_JOIN AS SELECT A.ID, P.NAME FROM A JOIN PEOPLE P ON A.ID = P.ID;", RowsHidden),
        ("CREATE STREAM MY_RAW (X STRING) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='KAFKA');", NotAllowed),
        ("CREATE SOURCE STREAM MY_RAW (X STRING) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='KAFKA');", NotAllowed),
        ("CREATE STREAM MY_BOOK (X STRING) WITH (KAFKA_TOPIC='__access', VALUE_FORMAT='KAFKA');", BadTopicName),
        ("CREATE STREAM MY_A AS SELECT * FROM A EMIT CHANGES;", None),
        ("CREATE STREAM MY_OTHER WITH (KAFKA_TOPIC='people') AS SELECT * FROM A;", NotAllowed),
        ("CREATE STREAM OTHER AS SELECT * FROM A;", NotAllowed),
        (
            "CREATE OR REPLACE STREAM A (ID INT KEY, G INT, H INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');",
            NotAllowed,
        ),
        ("INSERT INTO A VALUES (9, 9);", NotAllowed),
        ("INSERT INTO RAW VALUES (2, 'EU', 'bob');", SourceNotFound),
        ("DROP STREAM A;", NotAllowed),
        ("DROP TABLE PEOPLE;", NotAllowed),
        ("CREATE TYPE T AS STRUCT<X INT>;", NotAllowed),
        ("TERMINATE ALL;", None),
        ("DESCRIBE RAW;", SourceNotFound),
    ],
)
def test_no_statement_bypasses_a_row_filter(node: Node, text: str, error: type[HeadraceError] | None) -> None:
    before = node.catalog.copy()
    try:
        if error is None:
            node.execute(text, rights=_rights(*EU))
        else:
            with pytest.raises(error):
                node.execute(text, rights=_rights(*EU))
            assert (node.catalog.sources, node.catalog.queries) == (before.sources, before.queries)
    finally:
        if "MY_A" in node.catalog.sources:
            node.execute("DROP STREAM MY_A DELETE TOPIC;")


def test_queries_on_hidden_sources_can_be_neither_controlled_nor_shown(node: Node) -> None:
    node.execute("CREATE STREAM COPY_OF_B AS SELECT * FROM B;")
    try:
        (query,) = node.catalog.queries
        for text in (f"TERMINATE {query};", f"PAUSE {query};", "TERMINATE ALL;", f"EXPLAIN {query};"):
            with pytest.raises(REFUSED):
                node.execute(text, rights=_rights(*EU))
        with pytest.raises(NotAllowed):
            node.restart(query, rights=_rights(*EU))
        told: list[Any] = []
        node.execute("LIST QUERIES;", rights=_rights(*EU), on_done=told.append)
        assert told[0].answer.body()["queries"] == []
        node.execute(f"PAUSE {query};", rights=_rights("control source COPY_OF_B"))
    finally:
        node.execute("DROP STREAM COPY_OF_B DELETE TOPIC;")


def test_several_row_filters_are_alternatives(node: Node) -> None:
    rights = _rights("read source PEOPLE where REGION = 'US'", "read source PEOPLE where NAME = 'ann'")
    assert _pulled(node, "SELECT NAME FROM PEOPLE;", rights) == [("ann",), ("bob",)]


@pytest.mark.parametrize(
    "where", ["NOWHERE = 1", "REGION", "COUNT(*) > 1", "REGION = 'EU' OR", "ROWOFFSET > 0", "1 = 1; DROP TABLE PEOPLE"]
)
def test_an_invalid_row_filter_hides_all_rows(node: Node, where: str) -> None:
    rights = _rights(f"read source PEOPLE where {where}")
    with pytest.raises(BadRowFilter):
        node.plan_transient_query("SELECT * FROM PEOPLE;", rights=rights)


def test_an_error_does_not_reveal_hidden_names(node: Node) -> None:
    with pytest.raises(HeadraceError) as refused:
        node.plan_transient_query("SELECT * FROM NOTHING;", rights=_rights("read source A"))
    assert "PEOPLE" not in str(refused.value)
    with pytest.raises(HeadraceError) as refused:
        node.inserter("NOTHING", rights=_rights("read source A"))
    assert "PEOPLE" not in str(refused.value)


def test_no_error_of_a_statement_names_a_hidden_source() -> None:
    def fixes(rights: Rights) -> list[str | None]:
        error: StatementError = ColumnNotFound("column X does not exist", fix="columns are: ID")
        error.others = (SourceNotFound("Source `B` does not exist.", fix="sources are: A, HIDDEN"),)
        with pytest.raises(ColumnNotFound) as caught, redact_errors(rights):
            raise error
        return [one.fix for one in (caught.value, *caught.value.others)]

    assert fixes(ALL_RIGHTS) == ["columns are: ID", "sources are: A, HIDDEN"]
    assert fixes(_rights("read source A")) == ["columns are: ID", "check the name; LIST shows what you may see"]
