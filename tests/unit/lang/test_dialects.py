"""A dialect is one class: registered by a test, it is parsed, planned, run, journalled and restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.access.secret_files import find_local_secret
from headrace.client import Client
from headrace.control.node import Node
from headrace.errors import SourceNotFound, UnknownDialect
from headrace.lang import registry
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from headrace.testing import run_cases
from headrace.testing.world import World
from tests.unit.cli.conftest import Program
from tests.unit.control.test_node import Nowhere
from tests.unit.lang.toy_dialects import Arrows, Lists, ToyDialect

CASES = """[{"inputs":  [{"source": "A", "key": 1, "value": {"V": 5}}, {"source": "A", "key": 2, "value": {"V": 1}}],
             "outputs": [{"source": "B", "key": 1, "value": {"V": 5}}]}]"""
SCRIPTS = {"arrows": "A\nA > 3 -> B", "lists": "(stream A) (above B A 3)"}


@pytest.fixture(autouse=True)
def dialects() -> Iterator[None]:
    toys: list[ToyDialect] = [Arrows(), Lists()]
    for toy in toys:
        registry.register(toy)
    yield
    for toy in toys:
        registry.unregister(toy.name)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.mark.parametrize("language", SCRIPTS)
def test_statements_run_in_memory(language: str) -> None:
    world = World()
    world.execute(SCRIPTS[language], language=language)
    world.execute("CREATE STREAM c AS SELECT id, v + 1 AS w FROM b;")  # KSQL reads what the other dialect created
    for value in (1, 5, 3, 9):
        world.produce("A", b"\0\0\0\1", b'{"V": %d}' % value)
    assert [record.value for record in world.topics["B"]] == [b'{"V":5}', b'{"V":9}']
    assert [record.value for record in world.topics["C"]] == [b'{"W":6}', b'{"W":10}']


@pytest.mark.parametrize("language", SCRIPTS)
def test_statements_are_journalled_in_their_language_and_restored(language: str, log: EmbeddedLog) -> None:
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node:
        node.execute(SCRIPTS[language], language=language)
        node.execute("CREATE STREAM c AS SELECT id, v + 1 AS w FROM b;")
        before = node.catalog.copy()
    with Node(log, settings, isolation=Nowhere()) as node:
        assert (node.catalog.sources, node.catalog.queries) == (before.sources, before.queries)
        assert list(node.supervisor.queries) == ["CSAS_B", "CSAS_C_2"]
        assert [entry.language for entry in node._state.journal.entries] == [language, language, "ksql"]
        assert not node.broken


def test_a_journalled_statement_of_an_unknown_dialect_is_kept_as_broken(log: EmbeddedLog) -> None:
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node:
        node.execute(SCRIPTS["arrows"], language="arrows")
    registry.unregister("arrows")
    with Node(log, settings, isolation=Nowhere()) as node:
        assert [error.code for error in node.broken.values()] == ["unknown-dialect"] * 2
        assert len(node._state.journal.entries) == 2
    registry.register(Arrows())
    with Node(log, settings, isolation=Nowhere()) as node:
        assert set(node.catalog.sources) == {"A", "B"}


@pytest.mark.parametrize("language", SCRIPTS)
def test_statements_over_http_name_their_language(language: str, log: EmbeddedLog) -> None:
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        client = Client(f"http://{server.host}:{server.port}")
        done = client.execute(SCRIPTS[language], language=language)
        assert [(one["action"], one["source"], one["query"]) for one in done] == [
            ("create_source", "A", None),
            ("create_source", "B", "CSAS_B"),
        ]
        client.execute("CREATE STREAM c AS SELECT id, v + 1 AS w FROM b;", language="ksql")
    with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        assert set(node.catalog.queries) == {"CSAS_B", "CSAS_C_2"}
        operator = Client(f"http://{server.host}:{server.port}", token=find_local_secret(log.folder))
        listed = operator._exchange("/api/v1/statements").document()
        assert [entry["language"] for entry in listed] == [language, language, "ksql"]


def test_an_unknown_language_over_http_is_refused_with_the_known_languages(log: EmbeddedLog) -> None:
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        with pytest.raises(UnknownDialect) as refused:
            Client(f"http://{server.host}:{server.port}").execute("A", language="arows")
        assert refused.value.what == 'there is no dialect "arows"; the dialects are: arrows, ksql, lists'
        assert refused.value.fix == 'did you mean "arrows"?'
        assert not node.catalog.sources


@pytest.mark.parametrize("language", SCRIPTS)
def test_the_file_extension_selects_the_dialect(language: str, tmp_path: Path) -> None:
    headrace = Program(tmp_path / "data")
    script, cases = tmp_path / f"app.{language}", tmp_path / "cases.json"
    script.write_text(SCRIPTS[language])
    cases.write_text(CASES)
    assert headrace("check", script).err == "2 statements, no errors\n"
    assert "filled by query CSAS_B" in headrace("explain", script).out
    assert headrace("test", script, cases).out == "1 passed, 0 failed\n"
    assert headrace("test", script, code=1).err.startswith(f"bad-test-cases: {script} has no ASSERT")


def test_cases_of_the_test_command_run_in_any_dialect() -> None:
    assert run_cases(SCRIPTS["lists"], CASES, language="lists").failed == 0


def test_check_collects_all_errors_with_their_places() -> None:
    found = registry.dialect_of("arrows").check("A\nwhat is this\nX > 1 -> Y\nA > 1 -> B", "app.arrows")
    assert [(error.code, error.where) for error in found.errors] == [
        ("toy-syntax-error", "app.arrows:2:1"),
        ("source-not-found", "app.arrows:3:1"),
    ]
    assert [planned.text for planned in found.planned] == ["A", "A > 1 -> B"]
    assert found.statements == 4


def test_an_error_stops_a_script_after_the_earlier_statements() -> None:
    world = World()
    with pytest.raises(SourceNotFound) as refused:
        world.execute("A\nX > 1 -> Y\nA > 1 -> B", language="arrows")
    assert refused.value.where == "line 2:1"
    assert set(world.catalog.sources) == {"A"}


def test_a_dialect_is_found_by_its_name_or_a_file_extension() -> None:
    assert registry.dialect_of_file("app.lists").name == "lists"
    assert registry.dialect_of_file("app.ksql").name == registry.dialect_of_file("app.SQL").name == "ksql"
    assert registry.dialect_of_file("/dev/stdin").name == "ksql"
    assert registry.names() == ["arrows", "ksql", "lists"]
    with pytest.raises(UnknownDialect, match="kqsl") as refused:
        registry.dialect_of("kqsl")
    assert refused.value.fix == 'did you mean "ksql"?'


def test_an_unknown_file_ending_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownDialect) as refused:
        registry.dialect_of_file("a/app.txt")
    assert refused.value.what == (
        'no dialect has the ending of file "a/app.txt"; the endings are: .arrows, .ksql, .lists, .sql'
    )
    assert refused.value.fix == "rename the file: use one of .arrows, .ksql, .lists, .sql"
    with pytest.raises(UnknownDialect) as refused:
        registry.dialect_of_file("app.kslq")
    assert refused.value.fix == 'did you mean ".ksql"?'


# -- files of other dialects, in RUN SCRIPT and in the shell -----------------------------------------------------------

INCLUDING = "CREATE STREAM first (id INT KEY, v INT) WITH (kafka_topic='first', format='JSON');\nRUN SCRIPT '{}';\n"
AFTER = "CREATE STREAM c AS SELECT id, v + 1 AS w FROM b;"


@pytest.mark.parametrize("language", SCRIPTS)
def test_run_script_picks_the_dialect_by_the_ending(language: str, tmp_path: Path) -> None:
    (tmp_path / f"inner.{language}").write_text(SCRIPTS[language])
    outer = tmp_path / "outer.ksql"
    outer.write_text(INCLUDING.format(f"inner.{language}") + AFTER)
    assert Program(tmp_path / "data")("check", outer).err == "4 statements, no errors\n"
    world = World()
    world.execute(outer.read_text(), str(outer))
    world.produce("A", b"\0\0\0\1", b'{"V": 5}')
    assert [record.value for record in world.topics["C"]] == [b'{"W":6}']


def test_errors_in_an_included_script_of_another_dialect_have_their_places(tmp_path: Path) -> None:
    (tmp_path / "inner.arrows").write_text("A\nwhat is this\nX > 1 -> B")
    outer = tmp_path / "outer.ksql"
    outer.write_text(INCLUDING.format("inner.arrows") + AFTER + "\nRUN SCRIPT 'other.kslq';")
    (tmp_path / "other.kslq").write_text("")
    found = registry.dialect_of().check(outer.read_text(), str(outer))
    assert [(error.code, error.where) for error in found.errors] == [
        ("toy-syntax-error", f"{tmp_path}/inner.arrows:2:1"),
        ("source-not-found", f"{tmp_path}/inner.arrows:3:1"),
        ("unknown-dialect", f"{outer}:4:1"),
    ]
    assert (found.refused, found.following) == (3, 1)  # the stream over B may be right
    with pytest.raises(UnknownDialect) as refused:
        World().execute("RUN SCRIPT 'other.kslq';", str(outer))
    assert refused.value.where == f"{outer}:1:1"


@pytest.mark.parametrize("language", SCRIPTS)
def test_the_shell_sends_a_file_in_the_dialect_of_its_ending(language: str, log: EmbeddedLog, tmp_path: Path) -> None:
    script, outer, headrace = tmp_path / f"app.{language}", tmp_path / "outer.sql", Program(log.folder)
    script.write_text(SCRIPTS[language])
    outer.write_text(f"RUN SCRIPT 'app.{language}';")
    settings = Settings.of(storage_data=log.folder)
    for options in (["--file", script], ["--file", outer], ["--execute", f"\\i {script}"]):
        with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
            called = ["sql", "--server", server.address, *options, "--output", "csv"]
            assert headrace(*called).out.splitlines() == [
                "Action,Source,Query",
                "create_source,A,",
                "create_source,B,CSAS_B",
            ]
            assert set(node.catalog.sources) == {"A", "B"}
            node.execute("DROP STREAM b; DROP STREAM a;")


def test_the_shell_places_an_error_in_a_file_of_another_dialect(log: EmbeddedLog, tmp_path: Path) -> None:
    script, headrace = tmp_path / "app.arrows", Program(log.folder)
    script.write_text("A\nwhat is this")
    (tmp_path / "app.other").write_text("A")
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        refused = headrace("sql", "--server", server.address, "--file", script, code=1).err
        assert refused.startswith(f"toy-syntax-error: this is no statement\n  at {script}:2:1\n    what is this\n")
        unknown = headrace("sql", "--server", server.address, "--file", tmp_path / "app.other", code=1).err
        assert unknown.startswith("unknown-dialect: no dialect has the ending of file")
