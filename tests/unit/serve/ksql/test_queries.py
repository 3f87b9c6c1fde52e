"""Queries over HTTP, on a real server and log: pull queries on tables and streams, and push queries."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.access.authorization import ALL_RIGHTS
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.control.serving import push
from headrace.errors import ViewReplaced
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.serve.api import request_context
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.serve.ksql import insert_stream, queries
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.wait import wait_until

DECLARED = """
CREATE STREAM clicks (page STRING KEY, n INT) WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE SOURCE TABLE pages (page STRING PRIMARY KEY, views BIGINT, price DECIMAL(6, 2)) WITH (kafka_topic='pages',
  format='JSON', partitions=1);
"""
EARLIEST = {"auto.offset.reset": "earliest"}


class Client:
    """Over HTTP/1.1."""

    def __init__(self, node: Node, port: int) -> None:
        self.node, self.port = node, port

    def post(self, path: str, body: Any, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse()

    def query(self, text: str, **properties: Any) -> tuple[int, Any]:
        response = self.post("/query", {"ksql": text, "streamsProperties": properties})
        return response.status, json.loads(response.read())

    def rows(self, text: str, **properties: Any) -> list[Any]:
        status, told = self.query(text, **properties)
        assert status == 200, told
        return [entry["row"]["columns"] for entry in told if "row" in entry]

    def append(self, topic: str, *rows: tuple[str | None, dict[str, Any] | None]) -> None:
        records = [
            Record(None if row is None else json.dumps(row).encode(), None if key is None else json.dumps(key).encode())
            for key, row in rows
        ]
        self.node.log.append([Append(topic, records)])

    def queued_pulls(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics")
        name, lines = 'headrace_work_queued{class="pull"', connection.getresponse().read().decode().splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(name))

    def settle(self, table: str = "PAGES", topic: str = "pages") -> None:
        ends = {partition: bounds.end for partition, bounds in self.node.log.bounds(topic).items()}
        self.node.tables.wait_for(table, ends, timedelta(seconds=30))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path) as client:
        yield client


@contextmanager
def serving(tmp_path: Path, kind: type[Node] = Node, **settings: Any) -> Iterator[Client]:
    with (
        EmbeddedLog(tmp_path / "data") as log,
        kind(log, Settings.of(storage_data=log.folder, **settings), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
    ):
        node.execute(DECLARED)
        yield Client(node, server.port)


def test_a_pull_query_on_a_table_returns_its_rows(client: Client) -> None:
    assert client.rows("SELECT COUNT(*) AS n, SUM(views) AS all_views FROM pages;") == [[0, None]]
    client.append(
        "pages", ("/a", {"VIEWS": 1, "PRICE": 1.50}), ("/b", {"VIEWS": 2}), ("/c", {"VIEWS": 3}), ("/c", None)
    )
    client.settle()
    _, told = client.query("SELECT price, page FROM pages WHERE page = '/a';")
    assert told == [
        {"header": {"queryId": told[0]["header"]["queryId"], "schema": "`PRICE` DECIMAL(6, 2), `PAGE` STRING KEY"}},
        {"row": {"columns": [1.50, "/a"]}},
    ]
    assert client.rows("SELECT * FROM pages ORDER BY views DESC;") == [["/b", 2, None], ["/a", 1, 1.5]]
    assert client.rows("SELECT page FROM pages WHERE views >= 1 LIMIT 1;") in ([["/a"]], [["/b"]])
    assert client.rows("SELECT COUNT(*) AS n, SUM(views) AS all_views FROM pages;") == [[2, 3]]
    assert client.rows("SELECT COUNT(*) AS n FROM pages WHERE page = '/missing';") == [[0]]
    assert client.rows("SELECT page, ROWTIME FROM pages WHERE page = '/missing';") == []


@pytest.mark.parametrize(
    "replaced",
    [
        "DROP TABLE pages; CREATE SOURCE TABLE pages (page STRING PRIMARY KEY, price DECIMAL(6, 2), views BIGINT) "
        "WITH (kafka_topic='pages', format='JSON');",
        "DROP TABLE pages; CREATE SOURCE TABLE pages (page STRING PRIMARY KEY, views BIGINT, price DECIMAL(6, 2)) "
        "WITH (kafka_topic='clicks', format='JSON');",
    ],
    ids=["columns", "topic"],
)
def test_a_query_that_was_planned_for_an_earlier_table_is_to_be_sent_again(client: Client, replaced: str) -> None:
    text = "SELECT page, views FROM pages WHERE page = '/a' AND ROWTIME >= 0;"
    select, prepared = client.node.plan_select(text), client.node.prepared_queries
    with client.node.pull_queries.execute(select) as answer:
        assert list(answer.batches) == []
    with prepared.borrow("SELECT views FROM pages WHERE page = '/a';") as shape:
        assert shape is not None
        client.node.execute(replaced)
        with pytest.raises(ViewReplaced), client.node.pull_queries.execute_prepared(shape):
            pass
    with pytest.raises(ViewReplaced), client.node.pull_queries.execute(select):
        pass
    assert client.rows(text) == []


def test_a_pull_query_on_a_stream_reads_to_its_end(client: Client) -> None:
    client.append("clicks", *((f"/{n % 3}", {"N": n}) for n in range(10)), ("/x", None), (None, {"N": 10}))
    status, told = client.query("SELECT page, n FROM clicks WHERE n > 6;")
    assert (status, told[0]["header"]["schema"]) == (200, "`PAGE` STRING, `N` INTEGER")
    assert sorted(entry["row"]["columns"] for entry in told[1:-1] if entry["row"]["columns"][0]) == [
        ["/0", 9],
        ["/1", 7],
        ["/2", 8],
    ]
    assert told[-1] == {"finalMessage": "Query Completed"}
    assert len(client.rows("SELECT * FROM clicks LIMIT 2;")) == 2


def test_a_notice_on_an_incomplete_result_is_one_header_for_any_query_name(client: Client) -> None:
    client.node.execute(
        "CREATE TABLE `per\r\nset-cookie: page é` WITH (kafka_topic='per', partitions=1) AS "
        "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"
    )
    text = {"sql": "SELECT * FROM `per\r\nset-cookie: page é`;"}
    response = client.post("/query-stream", text, **{"Headrace-Notices": "1"})
    assert response.status == 200
    wait_until(lambda: bool(client.node.reconciler.failures), list)  # nothing runs here
    response = client.post("/query-stream", text, **{"Headrace-Notices": "1"})
    assert (response.headers["headrace-notice"] or "").startswith("query CTAS_per\\r\\nset-cookie: page \\xe9")
    assert "set-cookie" not in response.headers
    assert "headrace-notice" not in client.post("/query-stream", text).headers


class CountingNode(Node):
    """Counts how often it plans a query."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.planned, plan = 0, self.plan_transient_query

        def counting(*args: Any, **named: Any) -> Any:
            self.planned += 1
            return plan(*args, **named)

        self.plan_transient_query = counting


def test_a_query_that_asks_for_notices_is_planned_once(tmp_path: Path) -> None:
    with serving(tmp_path, CountingNode) as client:
        client.node.execute("CREATE TABLE per AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;")
        wait_until(lambda: bool(client.node.reconciler.failures), list)  # nothing runs here
        body = {"sql": "SELECT * FROM per;", "sessionVariables": {"any": "variable"}}
        response = client.post("/query-stream", body, **{"Headrace-Notices": "1"})
        assert (response.headers["headrace-notice"] or "").startswith("query CTAS_PER")
        assert isinstance(client.node, CountingNode)
        assert client.node.planned == 1


@pytest.mark.parametrize("path", ["/query", "/query-stream"])
@pytest.mark.parametrize("variables", ["a", [1], 3])
def test_session_variables_must_be_an_object(client: Client, path: str, variables: Any) -> None:
    body = {"ksql": "SELECT * FROM pages;", "sql": "SELECT * FROM pages;", "sessionVariables": variables}
    response = client.post(path, body)
    assert (response.status, json.loads(response.read())["code"]) == (400, "bad-request")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM nothing;", "source-not-found"),
        ("SELECT * FROM clicks c JOIN pages p ON c.page = p.page;", "bad-query"),
        ("SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;", "bad-query"),
        ("SELECT page, ROWOFFSET FROM pages;", "bad-query"),
        ("SELECT * FROM declared;", "not-queryable"),
        ("SELECT * FROM clicks EMIT CHANGES ORDER BY n;", "bad-query"),
        ("SELECT * FROM pages WHERE page IN (NULL);", "bad-query"),
        ("SELECT * FROM numbered WHERE id IN ('1', 2);", "type-mismatch"),
        ("LIST STREAMS;", "bad-query"),
        ("PRINT nothing;", "unknown-topic"),
        ("PRINT clicks; PRINT clicks;", "bad-query"),
        ("SELECT * FROM pages; SELECT * FROM pages;", "bad-query"),
    ],
)
def test_unsupported_queries_are_refused(client: Client, text: str, code: str) -> None:
    client.node.execute(
        "CREATE TABLE declared (id INT PRIMARY KEY) WITH (kafka_topic='d', format='JSON', partitions=1);"
        "CREATE SOURCE TABLE numbered (id INT PRIMARY KEY) WITH (kafka_topic='d', format='JSON', partitions=1);"
    )
    status, told = client.query(text)
    assert (status, told["code"]) == (400, code)


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [("page = '/a'", True), ("page IN ('/a', '/b')", True), ("page > '/a'", True), ("views = 1", False),
     ("page = '/a' OR views = 1", False), ("page > '/a' AND page < '/b'", False)],
)  # fmt: skip
def test_table_scans_can_be_disabled(client: Client, condition: str, allowed: bool) -> None:
    off = {"ksql.query.pull.table.scan.enabled": False}
    status, _ = client.query(f"SELECT * FROM pages WHERE {condition};", **off)
    assert status == (200 if allowed else 400)


def test_a_push_query_ends_at_its_limit(client: Client) -> None:
    client.append("clicks", ("/a", {"N": 1}), ("/a", {"N": 2}))
    status, told = client.query("SELECT n, page FROM clicks EMIT CHANGES LIMIT 2;", **EARLIEST)
    assert (status, [entry["row"]["columns"] for entry in told[1:-1]]) == (200, [[1, "/a"], [2, "/a"]])
    assert told[-1] == {"finalMessage": "Limit Reached"}
    assert client.rows("SELECT COUNT(*) AS n FROM clicks EMIT CHANGES LIMIT 2;", **EARLIEST) == [[1], [2]]
    client.append("pages", ("/a", {"VIEWS": 1}), ("/a", None))
    _, told = client.query("SELECT views, page FROM pages EMIT CHANGES LIMIT 2;", **EARLIEST)
    assert told[2] == {"row": {"columns": [None, "/a"], "tombstone": True}}


def test_a_push_query_streams_rows_as_lines(client: Client) -> None:
    body = {"sql": "SELECT * FROM clicks EMIT CHANGES;"}
    response = client.post("/query-stream", body)
    begin = json.loads(response.readline())
    assert (begin["columnNames"], begin["columnTypes"]) == (["PAGE", "N"], ["STRING", "INTEGER"])
    for n in range(3):
        client.append("clicks", ("/a", {"N": n}))
        assert json.loads(response.readline()) == ["/a", n]
    assert len(client.node.push_queries) == 1
    assert client.post("/close-query", {"queryId": begin["queryId"]}).status == 200
    assert response.read() == b""
    wait_until(lambda: not len(client.node.push_queries))
    assert client.post("/close-query", {"queryId": begin["queryId"]}).status == 400


def test_a_push_query_stops_when_its_client_disconnects(client: Client) -> None:
    responses = [client.post("/query-stream", {"sql": "SELECT * FROM clicks EMIT CHANGES;"}) for _ in range(5)]
    assert len(client.node.push_queries) == 5
    for response in responses:
        response.readline()
        response.close()
    client.append("clicks", ("/a", {"N": 1}))
    wait_until(lambda: not len(client.node.push_queries))


class SlowNode(Node):
    """Plans queries on `slow` when it is told to."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.begun, self.free, plan = threading.Event(), threading.Event(), self.plan_transient_query
        self.texts: list[str] = []

        def planned(text: str, *args: Any, **named: Any) -> Any:
            self.texts.append(text)
            if "slow" in text:
                self.begun.set()
                self.free.wait(30)
            return plan(text, *args, **named)

        self.plan_transient_query = planned


def test_a_push_query_can_be_closed_while_the_quota_of_queries_is_used_up(tmp_path: Path) -> None:
    with serving(tmp_path, SlowNode, quota_queries=1) as client, ThreadPoolExecutor(1) as pool:
        assert isinstance(client.node, SlowNode)
        with closing(client.post("/query-stream", {"sql": "SELECT * FROM clicks EMIT CHANGES;"})) as pushed:
            query = json.loads(pushed.readline())["queryId"]
            slow = pool.submit(client.query, "SELECT * FROM slow;")
            assert client.node.begun.wait(30)
            assert client.query("SELECT * FROM clicks;")[0] == 429
            assert client.post("/close-query", {"queryId": query}).status == 200
            client.node.free.set()
            assert slow.result(30)[0] == 400


def test_a_query_whose_client_leaves_before_its_turn_never_runs(tmp_path: Path) -> None:
    scans = {"ksql.query.pull.table.scan.enabled": True}
    texts = [f"SELECT * FROM {name};" for name in ("slow", "pages", "clicks")]
    with serving(tmp_path, SlowNode, server_max_pulls_running=1) as client, ThreadPoolExecutor(2) as pool:
        assert isinstance(client.node, SlowNode)
        slow = pool.submit(client.query, texts[0])
        assert client.node.begun.wait(30)
        body = json.dumps({"ksql": texts[1], "streamsProperties": scans}).encode()
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as wire:
            wire.sendall(b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            wait_until(lambda: client.queued_pulls() == 1)
        wait_until(lambda: client.queued_pulls() == 0)
        assert not client.node.free.is_set()  # it gave up its place before anything was free
        last = pool.submit(client.query, texts[2], **scans)
        wait_until(lambda: client.queued_pulls() == 1)
        client.node.free.set()
        assert (slow.result(30)[0], last.result(30)[0]) == (400, 200)
        assert client.node.texts == [texts[0], texts[2]]
        assert client.node.processes.visible(ALL_RIGHTS) == []


def test_a_client_of_the_api_that_leaves_before_its_turn_gives_up_its_place(tmp_path: Path) -> None:
    with serving(tmp_path, SlowNode, server_max_pulls_running=1) as client, ThreadPoolExecutor(1) as pool:
        assert isinstance(client.node, SlowNode)
        slow = pool.submit(client.query, "SELECT * FROM slow;")
        assert client.node.begun.wait(30)
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as wire:
            wire.sendall(b"GET /api/v1/views/PAGES/rows HTTP/1.1\r\nhost: localhost\r\n\r\n")
            wait_until(lambda: client.queued_pulls() == 1)
        wait_until(lambda: client.queued_pulls() == 0)
        assert not client.node.free.is_set()
        client.node.free.set()
        assert slow.result(30)[0] == 400


def test_equal_push_queries_share_one_feed(client: Client) -> None:
    texts = ["SELECT * FROM clicks EMIT CHANGES;"] * 3 + ["SELECT n FROM clicks EMIT CHANGES LIMIT 1;"]
    responses = [client.post("/query-stream", {"sql": text}) for text in texts]
    assert (len(client.node.push_queries), len(client.node.push_queries.feeds)) == (4, 2)
    client.append("clicks", ("/a", {"N": 1}))
    for response in responses:
        assert json.loads(response.readline())["queryId"].startswith("SCALABLE_PUSH_QUERY")
        assert json.loads(response.readline()) in (["/a", 1], [1])
        response.close()


def test_a_slow_reader_of_an_unshared_push_query_gets_all_rows(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "MAX_BUFFERED_ROWS", 100)
    many, text = 20_000, "x" * 200
    for start in range(0, many, 1000):
        client.append("clicks", *((f"{text}{n}", {"N": n}) for n in range(start, start + 1000)))
    response = client.post(
        "/query-stream", {"sql": f"SELECT n FROM clicks EMIT CHANGES LIMIT {many};", "properties": EARLIEST}
    )
    response.readline()
    assert sorted(json.loads(line)[0] for line in response) == list(range(many))


def test_a_slow_reader_of_a_shared_push_query_is_disconnected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "MAX_BUFFERED_ROWS", 100)
    node, ask = client.node, client.node.plan_select("SELECT n FROM clicks EMIT CHANGES;")
    news = threading.Event()
    quick, slow = (node.push_queries.subscribe(ask, from_beginning=False, notify=n) for n in (news.set, lambda: None))
    taken = 0
    while not slow.ended:
        client.append("clicks", *(("/a", {"N": n}) for n in range(60)))
        taken += 60
        while taken:
            news.wait(30)
            news.clear()
            taken -= len(quick.take())
    assert slow.failure is not None
    assert slow.failure.code == "slow-consumer"
    assert not quick.ended


def printed(response: http.client.HTTPResponse) -> tuple[str, str]:
    """What stands between the time and the partition, and that."""
    line = response.readline().decode()
    assert line.startswith("rowtime: 20"), line
    _, shown = line.split(" Z, ")
    shown, _, partition = shown.rstrip("\n").rpartition(", partition: ")
    return shown, partition


def test_print_follows_the_topic(client: Client) -> None:
    client.append("clicks", ("/before", {"N": 0}))
    response = client.post("/query", {"ksql": "PRINT clicks;"})
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert [response.readline() for _ in range(2)] == [b"Key format: JSON\n", b"Value format: JSON\n"]
    for n in range(3):
        client.append("clicks", ("/a", {"N": n}))
        shown, partition = printed(response)
        assert shown == f'key: "/a", value: {{"N": {n}}}'
        assert partition in "01"
    assert len(client.node.push_queries) == 1
    response.close()
    wait_until(lambda: not client.node.push_queries.feeds)


def test_print_reads_from_the_beginning_up_to_a_limit(client: Client) -> None:
    for n in range(7):  # one by one: so their order is known, over both partitions
        client.append("clicks", (f"/{n}", {"N": n}))
    texts = ["PRINT clicks FROM BEGINNING LIMIT 3;", "PRINT clicks FROM BEGINNING INTERVAL 3 LIMIT 3;"]
    for text, expected in zip(texts, [[0, 1, 2], [0, 3, 6]], strict=True):
        told = client.post("/query", {"ksql": text}).read().decode().splitlines()
        assert [line.split("value: ")[1].split(", partition")[0] for line in told[2:]] == [
            json.dumps({"N": n}) for n in expected
        ]
    wait_until(lambda: not client.node.push_queries.feeds)
    response = client.post("/query", {"ksql": "PRINT clicks FROM BEGINNING INTERVAL 4 LIMIT 3;"})
    for _ in range(2):
        response.readline()
    assert [printed(response)[0][-2] for _ in range(2)] == ["0", "4"]
    client.append("clicks", ("/7", {"N": 7}), ("/8", {"N": 8}))  # every fourth of all that it has seen
    assert json.loads(printed(response)[0].split("value: ")[1]) in ({"N": 7}, {"N": 8})
    assert response.read() == b""


def test_print_gives_rows_with_the_formats(client: Client) -> None:
    client.node.log.create_topic("bytes")
    client.node.log.append([Append("bytes", [Record(b"\x00\x00\x00\x05", b"k\n"), Record(None, None)])])
    response = client.post("/query-stream", {"sql": "PRINT 'bytes' FROM BEGINNING;"})
    begin = json.loads(response.readline())
    assert (begin["columnNames"], begin["columnTypes"]) == (
        ["rowtime", "key", "value", "partition"],
        ["STRING", "STRING", "STRING", "INTEGER"],
    )
    assert (begin["keyFormat"], begin["valueFormat"]) == ("KAFKA_STRING", "KAFKA_INT")
    assert [json.loads(response.readline())[1:] for _ in range(2)] == [["k\n", "5", 0], ["<null>", "<null>", 0]]
    assert client.post("/close-query", {"queryId": begin["queryId"]}).status == 200
    assert response.read() == b""
    assert client.query("PRINT nothing;")[1]["code"] == "unknown-topic"
    refused = client.post("/ksql", {"ksql": "PRINT clicks;"})
    assert (refused.status, json.loads(refused.read())["code"]) == (400, "unsupported")


def test_a_slow_reader_of_print_gets_all_records(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "MAX_BUFFERED_ROWS", 100)
    many, text = 20_000, "x" * 200
    for start in range(0, many, 1000):
        client.append("clicks", *((f"{text}{n}", {"N": n}) for n in range(start, start + 1000)))
    response = client.post("/query", {"ksql": f"PRINT clicks FROM BEGINNING LIMIT {many};"})
    wait_until(lambda: bool(client.node.push_queries.feeds) and client.node.push_queries.feeds[0].is_blocked)
    assert sum(b"rowtime: " in line for line in response) == many


def test_results_have_the_accepted_content_type(client: Client) -> None:
    client.append("pages", ("/a", {"VIEWS": 1}))
    client.settle()
    body = {"sql": "SELECT page, views FROM pages;"}
    with closing(client.post("/query-stream", body, accept="application/json")) as response:
        names, row = json.loads(response.read())
    assert (names["columnNames"], row) == (["PAGE", "VIEWS"], ["/a", 1])
    with closing(client.post("/query-stream", body, accept="application/vnd.ksql.v1+json")) as response:
        assert json.loads(response.read())[1] == {"row": {"columns": ["/a", 1]}}
    with closing(client.post("/query-stream", {"ksql": 1})) as response:
        assert (response.status, json.loads(response.read())["code"]) == (400, "bad-request")


def test_many_rows_are_streamed_while_they_are_read(client: Client) -> None:
    client.append("pages", *((f"/{n}", {"VIEWS": n}) for n in range(5000)))
    client.settle()
    assert sorted(row[0] for row in client.rows("SELECT views FROM pages;")) == list(range(5000))


def test_a_client_that_does_not_read_a_result_releases_its_snapshot(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends, too: without the end of the answer."""
    monkeypatch.setattr(queries, "PULL_READ_GRACE", 0.5)
    client.node.pull_queries.settings = client.node.settings.replace(query_pull_timeout=timedelta(seconds=1))
    let_go, execute = threading.Event(), client.node.pull_queries.execute

    @contextmanager
    def watched(*given: Any) -> Iterator[Any]:
        try:
            with execute(*given) as pulled:
                yield pulled
        finally:
            let_go.set()

    monkeypatch.setattr(client.node.pull_queries, "execute", watched)
    for start in range(0, 20_000, 1000):
        client.append("pages", *((f"/{n}{'x' * 1000}", {"VIEWS": n}) for n in range(start, start + 1000)))
    client.settle()
    body = json.dumps({"sql": "SELECT * FROM pages;"}).encode()
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as wire:
        wire.sendall(b"POST /query-stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert wire.recv(12) == b"HTTP/1.1 200"
        assert let_go.wait(20)
        tail = b""
        while data := wire.recv(1 << 16):
            tail = tail[-16:] + data
        assert not tail.endswith(b"0\r\n\r\n")


def test_dropping_a_table_deletes_its_file(client: Client) -> None:
    folder = client.node.settings.storage.data / "views"
    assert (folder / "PAGES.sqlite").exists()
    client.node.execute("DROP TABLE pages;")
    assert not list(folder.iterdir())
    status, told = client.query("SELECT * FROM pages;")
    assert (status, told["code"]) == (400, "source-not-found")


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def insert(client: Client, body: bytes, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("POST", "/inserts-stream", body, headers)
    return connection.getresponse()


def test_rows_are_inserted_and_acknowledged_one_by_one(client: Client) -> None:
    rows = [{"PAGE": "/a", "n": 1}, {"PAGE": "/b", "N": "two"}, {"page": "/c", "ROWTIME": 5}, [1]]
    response = insert(client, lines({"target": "clicks"}, *rows))
    told = [json.loads(line) for line in response]
    assert [(one["status"], one["seq"], one.get("code")) for one in told] == [
        ("ok", 0, None),
        ("error", 1, "bad-record"),
        ("ok", 2, None),
        ("error", 3, "bad-record"),
    ]
    assert sorted(client.rows("SELECT page, n FROM clicks;")) == [["/a", 1], ["/c", None]]
    assert client.rows("SELECT page FROM clicks WHERE ROWTIME = 5;") == [["/c"]]
    response = insert(client, lines({"target": "CLICKS"}, {"PAGE": "/d"}, {"PAGE": "/e"}), accept="application/json")
    assert json.loads(response.read()) == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "bad-request"), (b"[]\n", "bad-request"), (b'{"target": "NOTHING"}\n', "source-not-found"),
     (b'{"target": "PAGES"}\n', "source-read-only")],
)  # fmt: skip
def test_invalid_insert_targets_are_refused(client: Client, body: bytes, code: str) -> None:
    response = insert(client, body)
    assert (response.status, json.loads(response.read())["code"]) == (400, code)


def test_rows_are_acknowledged_while_others_are_sent(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.putrequest("POST", "/inserts-stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(*values: Any) -> None:
        text = lines(*values)
        connection.send(b"%x\r\n%b\r\n" % (len(text), text))

    send({"target": "clicks"}, {"PAGE": "/0"})
    response = connection.getresponse()
    assert json.loads(response.readline()) == {"status": "ok", "seq": 0}
    for n in range(1, 4):
        send({"PAGE": f"/{n}"})
        assert json.loads(response.readline()) == {"status": "ok", "seq": n}
    connection.send(b"0\r\n\r\n")
    assert response.read() == b""
    connection.close()


def test_many_rows_are_appended_in_large_batches(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    appends: list[int] = []
    append = client.node.log.append
    monkeypatch.setattr(client.node.log, "append", lambda given: (appends.append(1), append(given))[1])
    rows = [{"PAGE": f"/{n % 7}", "N": n} for n in range(20_000)]
    told = insert(client, lines({"target": "clicks"}, *rows)).read().splitlines()
    assert [json.loads(one)["seq"] for one in told if b'"ok"' in one] == list(range(20_000))
    assert len(appends) < 20
    assert client.rows("SELECT COUNT(*) AS n FROM clicks EMIT CHANGES LIMIT 20000;", **EARLIEST)[-1] == [20_000]


def test_rows_before_an_endless_line_are_appended(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert_stream, "MAX_LINE_BYTES", 100_000)
    rows = lines({"target": "clicks"}, *({"PAGE": "/", "N": n} for n in range(1_000)))
    *told, last = insert(client, rows + b'{"PAGE": "' + b"x" * 300_000).read().splitlines()
    assert [json.loads(one)["seq"] for one in told if b'"ok"' in one] == list(range(1_000))
    assert json.loads(last)["code"] == "bad-request"
    assert len(client.rows("SELECT n FROM clicks;")) == 1_000


async def parts_of(text: bytes) -> AsyncIterator[bytes]:
    for at in range(len(text)):
        yield text[at : at + 1]


def test_a_line_may_arrive_byte_by_byte() -> None:
    """Without all that has come being copied each time: that would take minutes. And what is held is told."""
    taken: list[int] = []

    async def read(text: bytes) -> list[bytes]:
        return [line async for found in insert_stream._lines(parts_of(text), taken.append) for line in found]

    began = time.process_time()
    assert asyncio.run(read(b"x" * 600_000)) == [b"x" * 600_000]
    assert time.process_time() - began < 10
    assert sum(taken) == 600_000
    taken.clear()
    assert asyncio.run(read(b"\nab\n\n  \n c\n\nd")) == [b"ab", b" c", b"d"]
    assert sum(taken) == len(b"ab cd")


def test_the_bytes_of_concurrent_requests_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_context, "_HELD", 1_400_000)  # a user alone gets half of it
    monkeypatch.setattr(insert_stream, "MAX_BATCH_BYTES", 1)
    with serving(tmp_path) as client:
        large = " " * 800_000
        for path, body in (("/ksql", {"ksql": large}), ("/query", {"ksql": large}), ("/query-stream", {"sql": large})):
            response = client.post(path, body)
            assert (response.status, json.loads(response.read())["code"]) == (429, "too-many-requests")
        response = insert(client, large.encode())
        assert (response.status, json.loads(response.read())["code"]) == (429, "too-many-requests")
        *_, last = insert(client, lines({"target": "clicks"}) + b'"' + large.encode()).read().splitlines()
        assert json.loads(last)["code"] == "too-many-requests"
        # What was appended is held no more, nor are lines without a row.
        rows = [{"PAGE": "x" * 1000, "N": n} for n in range(3_000)]
        told = insert(client, lines({"target": "clicks"}, *rows) + b"\n" * 1_000_000).read().splitlines()
        assert [json.loads(one)["status"] for one in told] == ["ok"] * 3_000
        assert client.post("/ksql", {"ksql": "-- " + "x" * 600_000 + "\nSHOW STREAMS;"}).status == 200
