"""Python code deployed to a server without running queries: journalled, replaced, withdrawn, refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.access.audit import read_audit
from headrace.control.node import Node
from headrace.control.statements.apply import StatementResult
from headrace.engine.checkpoint import Checkpoint
from headrace.errors import AppInUse, BadPython, FunctionExists, HeadraceError, PlanChanged, UnknownApp, UnknownFunction
from headrace.lang.python.app_code import AppCode, CombinedSetup
from headrace.log.embedded import EmbeddedLog
from headrace.plan.functions import find, user_functions, withdraw
from headrace.plan.functions.declaration import Function
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere

SHOP = """
import headrace as hr

app = hr.App("shop")

@app.function
def masked(card: str) -> str:
    return "*" * (len(card) - 4) + card[-4:]

orders = app.stream("orders", "id BIGINT KEY, card STRING", topic="orders")
orders.select("id", card=masked(hr.col.card)).to_stream("safe")
app.ksql("INSERT INTO orders VALUES (1, '12345678');")
"""
MORE = SHOP + 'orders.where(hr.col.id > 1).to_stream("later")\n'
OTHER = SHOP.replace('"*"', '"#"')
GROUPED = """
import headrace as hr

app = hr.App("groups")

@app.function
def parity(n: int) -> int:
    return n % 2

numbers = app.stream("numbers", "n BIGINT KEY", topic="numbers")
numbers.group_by(parity(hr.col.n)).agg(n=hr.count()).to_table("parities")
"""


@pytest.fixture(autouse=True)
def remove_functions() -> Iterator[None]:
    yield
    withdraw(user_functions())


@pytest.fixture
def opened(log: EmbeddedLog, settings: Settings) -> Iterator[Callable[[], Node]]:
    made: list[Node] = []

    def opened() -> Node:
        for node in made:
            node.close()
        withdraw(user_functions())  # as in a new process
        made[:] = [Node(log, settings, isolation=Nowhere())]
        return made[0]

    yield opened
    for node in made:
        node.close()


def sent(node: Node, source: str, path: str = "shop.py") -> list[str]:
    """Send an app; what was done of its statements."""
    done: list[StatementResult] = []
    node.deploy(AppCode(source, path), on_done=done.append)
    return [outcome.text for outcome in done]


def version(name: str) -> str:
    function = find(name)
    assert isinstance(function, Function)
    return function.overloads[0].version


def test_an_app_is_restored_after_a_restart(opened: Callable[[], Node], log: EmbeddedLog) -> None:
    node = opened()
    assert len(sent(node, SHOP)) == 3
    node.execute("CREATE STREAM safer AS SELECT id, MASKED(card) AS card FROM safe;")
    for is_new in (False, True):
        node = opened() if is_new else node
        assert list(node.apps.deployed_apps) == ["shop"]
        assert list(node.supervisor.queries) == ["CSAS_SAFE_2", "CSAS_SAFER_3"]
        assert node.broken == {}
        for registered in node.supervisor.queries.values():
            setup = node.apps.setup_of(registered.query)
            assert isinstance(setup, CombinedSetup)
            assert AppCode(SHOP) in setup.setups
    assert log.bounds("orders")[0].end == 1


def test_deploying_again_applies_only_new_statements(opened: Callable[[], Node], log: EmbeddedLog) -> None:
    node = opened()
    sent(node, SHOP)
    assert sent(node, SHOP) == []
    (later,) = sent(node, MORE)
    assert later.startswith("CREATE STREAM `LATER`")
    assert log.bounds("orders")[0].end == 1
    assert len(opened().supervisor.queries) == 2


def test_changed_code_is_used_by_the_queries_that_call_it(opened: Callable[[], Node]) -> None:
    node = opened()
    sent(node, SHOP)
    before = node.supervisor.queries["CSAS_SAFE_2"].query
    assert sent(node, OTHER) == []
    after = node.supervisor.queries["CSAS_SAFE_2"].query
    assert before != after
    assert node.apps.setup_of(after) == CombinedSetup((node.apps.base, AppCode(OTHER)))
    node = opened()
    assert node.supervisor.queries["CSAS_SAFE_2"].query.id == after.id
    assert node.apps.setup_of(node.supervisor.queries["CSAS_SAFE_2"].query) == CombinedSetup(
        (node.apps.base, AppCode(OTHER))
    )


def test_code_is_audited_before_it_runs_and_when_it_is_refused(
    opened: Callable[[], Node], log: EmbeddedLog, tmp_path: Path
) -> None:
    node, copy = opened(), tmp_path / "audit"
    reads_audit = (
        "from pathlib import Path; from headrace.access.audit import read_audit; "
        "from headrace.log.embedded import EmbeddedLog\n"
        f"if not Path({str(copy)!r}).exists():\n"
        f"    with EmbeddedLog(Path({str(log.folder)!r})) as log:\n"
        f"        Path({str(copy)!r}).write_text(list(read_audit(log))[-1].action)\n"
    )
    code = AppCode(reads_audit + "raise ValueError('no')", "evil.py")
    with pytest.raises(BadPython):
        node.deploy(code)
    assert copy.read_text() == "code"  # what the code has found in the audit log
    node.deploy(AppCode(SHOP, "shop.py"))
    entries = [entry for entry in read_audit(log) if entry.action.startswith("code")]
    assert [entry.action for entry in entries] == ["code", "code-refused", "code", "code-accepted"]
    ran, refused, _, accepted = entries
    assert ran.details == {"file": "evil.py", "sha256": code.sha256}
    assert refused.details == {**ran.details, "reason": "bad-python: ValueError: no\n  at evil.py:5"}
    assert (accepted.principal, accepted.details["app"]) == ("local", "shop")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (SHOP.replace("masked", "other"), UnknownFunction),  # a query calls what is no longer there
        (SHOP + "1 / 0\n", BadPython),
        (SHOP + "def (\n", BadPython),
        (SHOP + 'app.ksql("CREATE STREAM x AS SELECT * FROM nowhere;")\n', HeadraceError),
        (SHOP.replace('"shop"', '"second"'), FunctionExists),
    ],
)
def test_a_refused_app_changes_nothing(opened: Callable[[], Node], source: str, error: type[HeadraceError]) -> None:
    node = opened()
    sent(node, SHOP)
    before = version("MASKED"), dict(node.apps.deployed_apps), list(node.supervisor.queries), node._state.journal.next
    with pytest.raises(error):
        sent(node, source)
    assert (
        version("MASKED"),
        dict(node.apps.deployed_apps),
        list(node.supervisor.queries),
        node._state.journal.next,
    ) == before
    assert find("OTHER") is None


def test_changed_code_is_refused_for_a_query_with_state(opened: Callable[[], Node], settings: Settings) -> None:
    node = opened()
    sent(node, GROUPED, "groups.py")
    query = node.supervisor.queries["CTAS_PARITIES_2"].query
    node.supervisor.prepare(query.id)  # as if it had begun
    assert Checkpoint(settings.storage.data / "checkpoints" / "server" / query.id).manifest is not None
    with pytest.raises(PlanChanged, match="function PARITY"):
        sent(node, GROUPED.replace("% 2", "% 3"), "groups.py")
    assert node.apps.deployed_apps["groups"].code == AppCode(GROUPED)
    assert sent(node, GROUPED.replace("n % 2", "n % 2  # of one"), "groups.py") == []


def test_an_app_is_withdrawn_only_if_no_query_calls_it(opened: Callable[[], Node]) -> None:
    node = opened()
    sent(node, SHOP)
    with pytest.raises(AppInUse, match="CSAS_SAFE_2"):
        node.withdraw("shop")
    node.execute("DROP STREAM safe;")
    node.withdraw("shop")
    for is_new in (False, True):
        node = opened() if is_new else node
        assert node.apps.deployed_apps == {}
        assert find("MASKED") is None
        with pytest.raises(UnknownFunction):
            node.execute("CREATE STREAM safe AS SELECT id, MASKED(card) AS card FROM orders;")
    with pytest.raises(UnknownApp):
        node.withdraw("shop")


def test_a_compacted_journal_keeps_the_latest_code(opened: Callable[[], Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.control.statements.state._COMPACT_AFTER", 3)
    node = opened()
    sent(node, SHOP)
    for at in range(4):
        sent(node, OTHER if at % 2 == 0 else SHOP)
    node.execute("CREATE STREAM copy AS SELECT * FROM orders; DROP STREAM copy;" * 3)
    assert len(node._state.journal.entries) < 8
    node = opened()
    assert node.apps.deployed_apps["shop"].code == AppCode(SHOP)
    assert node.broken == {}


def test_code_that_no_longer_executes_breaks_the_statements_that_call_it(
    opened: Callable[[], Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text("STAR = '*'\n")
    source = "from beside import STAR\n" + SHOP.replace('"*"', "STAR")
    node = opened()
    sent(node, source, str(tmp_path / "shop.py"))
    (tmp_path / "beside.py").unlink()
    monkeypatch.delitem(__import__("sys").modules, "beside")
    node = opened()
    assert [type(error) for error in node.broken.values()] == [BadPython, UnknownFunction]
    assert list(node.catalog.sources) == ["ORDERS"]
