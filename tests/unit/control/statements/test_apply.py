"""Applying statements: in order, each journalled or without effect, and planned on what others have applied before."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from headrace.contracts import TopicSpec
from headrace.control.node import Node
from headrace.control.queries.restart_policy import QueryFailure
from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.statements.apply import StatementResult
from headrace.control.statements.journal import JOURNAL_TOPIC, read_journal
from headrace.errors import BadQuery, HeadraceError, SourceExists, SourceNotFound, TooManyStatements, Unsupported
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests.unit.control.test_node import CLICKS, COUNTS, Nowhere, known

SELECT = "SELECT * FROM clicks EMIT CHANGES;"
NAMES = ("a", "b", "c")


@pytest.fixture
def node(log: EmbeddedLog, settings: Settings) -> Iterator[Node]:
    with Node(log, settings, isolation=Nowhere()) as opened:
        yield opened


def stream(name: str, verb: str = "CREATE", column: str = "n") -> str:
    return f"{verb} STREAM {name} ({column} INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);"


def journalled(log: EmbeddedLog) -> list[str]:
    return [entry.text for entry in read_journal(log)[0]]


def test_results_come_in_order_and_only_changes_are_journalled(node: Node, log: EmbeddedLog) -> None:
    results: list[StatementResult] = []
    script = [
        CLICKS,
        "SHOW STREAMS;",
        "SET 'auto.offset.reset' = 'earliest';",
        COUNTS,
        "INSERT INTO clicks VALUES (1, 'a');",
    ]
    node.execute("\n".join(script), on_done=results.append)
    assert [result.text for result in results] == script
    assert [result.answer is not None for result in results] == [False, True, False, False, False]
    assert [result.text for result in results if result.entry] == journalled(log) == [CLICKS, COUNTS]
    assert [entry.creates_topic for entry in read_journal(log)[0]] == [True, True]
    assert dict(read_journal(log)[0][1].properties) == {"auto.offset.reset": "earliest"}
    assert [record.value for record in log.read("clicks", 0, 0).records()] == [b'{"PAGE":"a"}']


def test_statements_before_an_error_stay_applied_and_those_after_it_are_not(node: Node, log: EmbeddedLog) -> None:
    done: list[str] = []
    with pytest.raises(SourceNotFound):
        node.execute(
            "\n".join([CLICKS, "DROP STREAM missing;", stream("later")]), on_done=lambda one: done.append(one.text)
        )
    assert done == journalled(log) == [CLICKS]
    assert list(node.catalog.sources) == ["CLICKS"]


def test_a_request_with_too_many_statements_has_no_effect(node: Node, log: EmbeddedLog) -> None:
    with pytest.raises(TooManyStatements):
        node.execute(CLICKS + "SHOW STREAMS;" * 5000)
    assert (journalled(log), dict(node.catalog.sources)) == ([], {})


@pytest.mark.parametrize(
    "statement", [SELECT, "SELECT * FROM clicks;", "PRINT 'clicks';", "ASSERT VALUES clicks (id) VALUES (1);"]
)
def test_what_returns_rows_or_compares_them_is_refused_as_a_statement(
    node: Node, log: EmbeddedLog, statement: str
) -> None:
    node.execute(CLICKS)
    before = known(node), log.bounds(JOURNAL_TOPIC)
    with pytest.raises(Unsupported) as refused:
        node.execute(statement)
    assert refused.value.fix
    assert (known(node), log.bounds(JOURNAL_TOPIC)) == before


def test_a_script_sees_what_others_apply_between_its_statements(node: Node) -> None:
    def another_client(result: StatementResult) -> None:
        if result.text == CLICKS:
            node.execute(stream("other"))

    node.execute(CLICKS + "CREATE STREAM copy AS SELECT * FROM other;", on_done=another_client)
    assert sorted(node.catalog.sources) == ["CLICKS", "COPY", "OTHER"]


def test_of_clients_that_create_the_same_stream_at_once_one_succeeds(node: Node, log: EmbeddedLog) -> None:
    together = Barrier(8)

    def create(n: int) -> HeadraceError | None:
        together.wait(60)
        try:
            node.execute(stream("same", column=f"c{n}"))
        except HeadraceError as error:
            return error
        return None

    with ThreadPoolExecutor(8) as pool:
        errors = [error for error in pool.map(create, range(8)) if error is not None]
    assert [type(error) for error in errors] == [SourceExists] * 7
    assert len(journalled(log)) == 1


def test_a_failed_query_may_start_again_after_a_statement_about_it(node: Node) -> None:
    node.execute(CLICKS + COUNTS)
    (query,) = node.supervisor.queries
    for statement in (f"PAUSE {query};", f"RESUME {query};"):
        node.reconciler.stop()  # no pass records a failure meanwhile
        node.reconciler.failures[query] = QueryFailure(BadQuery("bad"), 3, None)
        node.execute(statement)
        assert node.reconciler.failures == {}, statement


def test_a_select_or_print_is_planned_and_changes_nothing(node: Node, log: EmbeddedLog) -> None:
    node.execute(CLICKS)
    before = known(node), log.bounds(JOURNAL_TOPIC)
    assert node.plan_select(SELECT).text == SELECT
    assert isinstance(node.plan_transient_query("PRINT 'clicks';"), TopicPrinter)
    with pytest.raises(BadQuery, match="not a SELECT"):
        node.plan_select("PRINT 'clicks';")
    for text in (SELECT * 2, COUNTS, f"{stream('more')} SELECT * FROM more EMIT CHANGES;", ""):
        with pytest.raises(BadQuery, match="not a single SELECT"):
            node.plan_transient_query(text)
    assert (known(node), log.bounds(JOURNAL_TOPIC)) == before


def test_variables_of_a_session_hold_for_its_later_requests(node: Node) -> None:
    variables: dict[str, str] = {}
    node.execute("DEFINE name = 'clicks';", variables=variables)
    node.execute(stream("${name}"), variables=variables)
    node.execute("UNDEFINE name;", variables=variables)
    assert (list(node.catalog.sources), variables) == (["CLICKS"], {})


CHANGES = st.lists(
    st.builds(
        lambda verb, name, column: f"DROP STREAM {name};" if verb == "DROP" else stream(name, verb, column),
        st.sampled_from(["CREATE", "CREATE OR REPLACE", "DROP"]),
        st.sampled_from(NAMES),
        st.sampled_from(["n", "m"]),
    ),
    max_size=6,
)


@tried(max_examples=15, deadline=None)
@given(scripts=st.lists(CHANGES, min_size=2, max_size=3))
def test_statements_of_clients_at_once_have_the_effect_of_their_order_in_the_journal(
    tmp_path_factory: pytest.TempPathFactory, scripts: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("clients")
    settings = Settings.of(storage_data=folder)
    with EmbeddedLog(folder, settings) as log:
        for name in NAMES:
            log.create_topic(name, TopicSpec(partitions=1))
        with Node(log, settings, isolation=Nowhere()) as node, ThreadPoolExecutor(len(scripts)) as pool:
            accepted = [text for texts in pool.map(lambda script: _accepted(node, script), scripts) for text in texts]
            expected = known(node)
        assert sorted(journalled(log)) == sorted(accepted)
        columns = {
            name: [field.name for field in source.relation.value] for name, source in node.catalog.sources.items()
        }
        assert columns == _kept(journalled(log))
        with Node(log, settings, isolation=Nowhere()) as restarted:
            assert known(restarted) == expected


def _accepted(node: Node, script: list[str]) -> list[str]:
    """The statements of a script that a server does not refuse."""
    accepted: list[str] = []
    for statement in script:
        try:
            node.execute(statement)
        except HeadraceError:
            continue
        accepted.append(statement)
    return accepted


def _kept(statements: list[str]) -> dict[str, list[str]]:
    """What streams there are after these statements, and their columns."""
    kept: dict[str, list[str]] = {}
    for text in statements:
        words = text.replace("OR REPLACE ", "").rstrip(";").split()
        if words[0] == "DROP":
            del kept[words[2].upper()]
        else:
            kept[words[2].upper()] = [words[3].strip("(").upper()]
    return kept
