"""Names that look like paths, in every route and in statements, reach no other file."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from headrace.control.node import Node
from headrace.serve.api.app import PREFIX, ROUTES
from tests.unit.serve.api.conftest import Client

NAMES = ["..", "../../outside", "/outside", "..\\outside", "a/../../outside", "\0", "a\0b", "%2e%2e%2foutside", "~"]
NAMES += ["x" * 9000]
TABLE = "CREATE SOURCE TABLE `{}` (k INT PRIMARY KEY, n INT) WITH (kafka_topic='{}', format='JSON', partitions=1);"
WRITTEN = [quote(name, safe="") for name in NAMES] + ["../../outside", "..%2foutside", "%252e%252e%252foutside"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("not-yours")
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    """All but the data folder."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and folder / "data" not in p.parents}


@pytest.mark.parametrize("name", WRITTEN, ids=lambda name: name[:24])
def test_a_name_in_a_route_reaches_no_other_file(ask: Client, outside: Path, name: str) -> None:
    before = tree(outside)
    for route in ROUTES:
        if "{" not in route.path or route.is_live:
            continue
        parts = [name if part.startswith("{") else part for part in route.path.split("/")]
        status, told, _ = ask.raw(route.method, PREFIX + "/".join(parts), b"{}")
        assert 400 <= status < 500, (route.method, route.path, status, told[:200])
        assert b"not-yours" not in told
    assert tree(outside) == before


@pytest.mark.parametrize("name", [name for name in NAMES if len(name) < 200])
def test_a_name_in_a_statement_reaches_no_other_file(ask: Client, node: Node, outside: Path, name: str) -> None:
    before = tree(outside)
    quoted = name.replace("`", "``")
    for topic in (name, "there"):
        ask.raw("POST", "/ksql", json.dumps({"ksql": TABLE.format(quoted, topic)}))
        ask.raw("POST", "/query", json.dumps({"ksql": f"SELECT * FROM `{quoted}`;"}))
    assert tree(outside) == before
    assert {path.parent for path in (outside / "data").rglob("*.sqlite")} <= {outside / "data" / "views"}


@pytest.mark.parametrize(
    "query",
    [
        "select=*%20FROM%20hidden%20--",
        "select=*%20FROM%20hidden%20WHERE%20true%20/*&order=*/k",
        "where=true%20LIMIT%20100000%20--",
        "where=true;%20DROP%20TABLE%20hidden;--",
    ],
)
def test_query_parameters_cannot_inject_sql(ask: Client, node: Node, query: str) -> None:
    for name in ("shown", "hidden"):
        node.execute(TABLE.format(name.upper(), name))
    status, told = ask("GET", f"/views/SHOWN/rows?{query}")
    assert 400 <= status < 500, told
    assert "HIDDEN" in node.catalog.sources
