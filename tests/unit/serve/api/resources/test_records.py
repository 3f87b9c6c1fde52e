"""Records over HTTP: produced in one append, read page by page."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from headrace.contracts import Bounds, TopicSpec
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema
from headrace.serve.api.log_io.record_decoder import ARROW, NDJSON
from headrace.serve.application import application
from headrace.serve.http.server import Server
from tests.unit.serve.api.conftest import Client

ORDERS = TopicSpec(partitions=2, schema=Schema.parse("id bigint key, city string, price decimal(30,2)"))
PATH = "/topics/orders/records"


@pytest.fixture(autouse=True)
def topics(log: EmbeddedLog) -> None:
    log.create_topic("orders", ORDERS)
    log.create_topic("raw")


def stream(rows: pa.RecordBatch, *more: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for one in (rows, *more):
            writer.write_batch(one)
    return sink.getvalue().to_pybytes()


def everything(ask: Client, topic: str, limit: int = 3) -> list[Any]:
    """All records, a few at a time, without what the log says of them."""
    found: list[Any] = []
    start = "beginning"
    while True:
        page = ask.done("GET", f"/topics/{topic}/records?limit={limit}&from={quote(start)}")
        if not page["records"]:
            assert page["next"] == start
            return [
                {n: v for n, v in row.items() if n[0] != "$"} for row in sorted(found, key=lambda r: str(r.get("id")))
            ]
        found, start = found + page["records"], page["next"]


def test_rows_are_converted_by_the_schema_and_read_back(ask: Client, log: EmbeddedLog) -> None:
    exact = '[{"id": 1, "city": "Rom", "price": 1234567890123456789012345678.10}, {"id": 2}]'
    told = ask.done("POST", PATH, exact.encode())
    ends = {number: bounds.end for number, bounds in log.bounds("orders").items()}
    assert (told["records"], told["repeated"]) == (2, False)
    assert sum(part["count"] for part in told["parts"]) == sum(ends.values()) == 2
    assert told["token"] == ",".join(f"orders/{number}:{end}" for number, end in ends.items() if end)
    found = everything(ask, "orders")
    assert [row["id"] for row in found] == [1, 2]
    _, page, _ = ask.raw("GET", f"/api/v1{PATH}")
    assert b"1234567890123456789012345678.10" in page


@pytest.mark.parametrize("kind", ["application/json", NDJSON, ARROW, ""])
def test_every_content_type_gives_the_same_rows(ask: Client, kind: str) -> None:
    rows = [{"id": i, "city": f"c{i}", "price": None} for i in range(10)]
    bodies = {
        "": json.dumps({"records": rows}).encode(),
        "application/json": json.dumps(rows).encode(),
        NDJSON: b"\n".join(json.dumps(row).encode() for row in rows) + b"\n\n",
        ARROW: stream(
            pa.RecordBatch.from_pylist(rows[:4], ORDERS.schema.arrow),
            pa.RecordBatch.from_pylist(rows[4:], ORDERS.schema.arrow),
        ),
    }
    headers = {"content_type": kind} if kind else {}
    assert ask.done("POST", PATH, bodies[kind], **headers)["records"] == 10
    assert everything(ask, "orders") == rows


def test_a_text_may_contain_the_separator_of_records(ask: Client) -> None:
    rows = [{"id": i, "city": city, "price": None} for i, city in enumerate(["},{", "a}", '"},{"', "\\", "[{"])]
    ask.done("POST", PATH, rows)
    ask.done("POST", "/topics/raw/records", [{"value": row["city"]} for row in rows])
    assert everything(ask, "orders") == rows
    assert [row["value"] for row in everything(ask, "raw")] == [row["city"] for row in rows]


def test_records_that_were_read_can_be_produced_again(ask: Client, log: EmbeddedLog) -> None:
    binary = base64.b64encode(b"\xff\x00").decode()
    sent = [
        {"key": "a", "value": "text", "$timestamp": 5, "$headers": {"from": "here"}},
        {"key_base64": binary, "value_base64": binary, "$timestamp": "1970-01-01T00:00:01Z"},
        {"value": {"n": 1}, "$timestamp": 7, "$headers": [{"name": "x", "value_base64": binary}]},
        {"key": 1.10, "value": None, "$timestamp": 8},
    ]
    ask.done("POST", "/topics/raw/records", json.dumps(sent).encode())
    page = ask.done("GET", "/topics/raw/records")["records"]
    assert page[0] == {
        "key": "a",
        "value": "text",
        "$partition": 0,
        "$offset": 0,
        "$timestamp": 5,
        "$headers": [{"name": "from", "value": "here"}],
    }
    assert (page[1]["value_base64"], page[1]["$timestamp"]) == (binary, 1000)
    assert (page[2]["value"], page[3]["key"], page[3]["value"]) == ('{"n": 1}', "1.1", None)
    ask.done("POST", "/topics/raw/records", page)
    again = list(log.read("raw", 0, 0).records())
    assert [(r.record, r.timestamp) for r in again[:4]] == [(r.record, r.timestamp) for r in again[4:]]


def test_json_values_are_stored_with_their_original_text(ask: Client) -> None:
    body = b'[{"value": {"a" : 1.10, "a": 12345678901234567890123} , "key" :7.0}]'
    ask.done("POST", "/topics/raw/records", body)
    (record,) = ask.done("GET", "/topics/raw/records")["records"]
    assert (record["key"], record["value"]) == ("7.0", '{"a" : 1.10, "a": 12345678901234567890123}')


def test_rows_may_have_a_time_headers_and_a_tombstone_mark(ask: Client, log: EmbeddedLog) -> None:
    rows = [{"id": 1, "$timestamp": 9, "$headers": {"a": "b"}}, {"id": 1, "$deleted": True}]
    ask.done("POST", PATH, rows)
    (partition,) = [number for number, bounds in log.bounds("orders").items() if bounds.end]
    read = log.read("orders", partition, 0).rows
    assert read.column("$timestamp")[0].as_py() == 9
    assert read.column("$headers")[0].as_py() == [{"name": "a", "value": b"b"}]
    assert [one or False for one in read.column("$deleted").to_pylist()] == [False, True]


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "code"),
    [
        (PATH, [{"id": 1}, {"id": "x"}], "application/json", 400, "wrong-type"),
        (PATH, [{"id": 1}, 3], "application/json", 400, "wrong-type"),
        (PATH, b'{"id": 1}\nnonsense', NDJSON, 400, "wrong-type"),
        (PATH, b"[{}", "application/json", 400, "bad-request"),
        (PATH, b"[{},]", "application/json", 400, "bad-request"),
        (PATH, b"[{}] 1", "application/json", 400, "bad-request"),
        (PATH, b'{"records": [{}], "more": 1}', "application/json", 400, "bad-request"),
        (PATH, b"{}", "application/json", 400, "bad-request"),
        (PATH, b"[" * 100_000, "application/json", 400, "bad-request"),
        (PATH, b"\xff", "application/json", 400, "bad-request"),
        (PATH, b"nonsense", ARROW, 400, "bad-request"),
        (PATH, b"", ARROW, 400, "bad-request"),
        (PATH, b"[]", "text/plain", 415, "unknown-content-type"),
        (f"{PATH}?partition=7", [{"id": 1}], "application/json", 404, "unknown-partition"),
        (f"{PATH}?partition=-1", [{"id": 1}], "application/json", 400, "bad-request"),
        ("/topics/raw/records", [{"val": "x"}], "application/json", 400, "bad-record"),
        ("/topics/raw/records", [1], "application/json", 400, "bad-record"),
        ("/topics/raw/records", b'[{"value": "\\ud800"}]', "application/json", 400, "bad-record"),
        (PATH, b'[{"id": 1}]}', "application/json", 400, "bad-request"),
        (PATH, b'{"records": [{"id": 1}]', "application/json", 400, "bad-request"),
        (PATH, b'[{"id": 1}, {"id": 2, "id": 3}]', "application/json", 400, "wrong-type"),
        ("/topics/raw/records", [{"value_base64": "*"}], "application/json", 400, "bad-record"),
        ("/topics/raw/records", [{"value": "x", "$headers": {"a": 1}}], "application/json", 400, "bad-record"),
        ("/topics/raw/records", [{"value": "x", "$timestamp": "now"}], "application/json", 400, "bad-record"),
        ("/topics/raw/records", [{"value": "x" * (2 << 20)}], "application/json", 413, "record-too-large"),
        ("/topics/__statements/records", [{"value": "x"}], "application/json", 404, "unknown-topic"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_record_refuses_the_whole_request(
    ask: Client, log: EmbeddedLog, path: str, body: Any, kind: str, status: int, code: str
) -> None:
    answered, told = ask("POST", path, body, content_type=kind)
    assert (answered, told["code"]) == (status, code), told
    assert all(bounds.end == 0 for topic in ("orders", "raw") for bounds in log.bounds(topic).values())


def test_malformed_arrow_is_refused(ask: Client, log: EmbeddedLog) -> None:
    body = stream(pa.RecordBatch.from_pydict({"id": [1], "city": ["x" * 4567]}))
    before, place, after = body.rpartition(bytes(4) + (4567).to_bytes(4, "little"))  # where the text begins and ends
    lying = before + place[:4] + (1 << 30).to_bytes(4, "little") + after
    status, told = ask("POST", PATH, lying, content_type=ARROW)
    assert (status, told["code"]) == (400, "bad-request")
    assert sum(bounds.end for bounds in log.bounds("orders").values()) == 0


def test_arrow_columns_of_compatible_types_are_converted(ask: Client) -> None:
    city = pa.array(["a", "b", "a"]).dictionary_encode()
    columns = {"id": pa.array([1, 2, 3], pa.int32()), "city": city, "$offset": pa.array([7, 8, 9])}
    assert ask.done("POST", PATH, stream(pa.RecordBatch.from_pydict(columns)), content_type=ARROW)["records"] == 3
    assert [row["city"] for row in everything(ask, "orders")] == ["a", "b", "a"]
    wrong = pa.RecordBatch.from_pydict({"id": ["x"]})
    assert ask("POST", PATH, stream(wrong), content_type=ARROW)[1]["code"] == "wrong-type"
    strange = pa.RecordBatch.from_pydict({"town": ["x"]})
    assert ask("POST", PATH, stream(strange), content_type=ARROW)[1]["code"] == "wrong-type"


def test_an_empty_request_appends_nothing(ask: Client) -> None:
    nothing = {"topic": "orders", "records": 0, "parts": [], "token": "", "repeated": False}
    assert ask.done("POST", PATH, []) == nothing
    assert (
        ask.done("POST", PATH, stream(pa.RecordBatch.from_pylist([], ORDERS.schema.arrow)), content_type=ARROW)
        == nothing
    )
    numbered = {"headrace_producer": "p", "headrace_sequence": "0"}
    assert ask.done("POST", PATH, [], **numbered) == nothing
    assert ask.done("POST", PATH, [], **numbered)["repeated"] is True


def test_a_request_with_a_sequence_is_applied_once_even_after_a_restart(log: EmbeddedLog, node: Node) -> None:
    def sent(ask: Client, number: int, value: str) -> tuple[int, Any]:
        names = {"headrace_producer": "till", "headrace_sequence": str(number)}
        return ask("POST", "/topics/raw/records", [{"value": value}], **names)

    with Server(application(node)).running() as server:
        ask = Client(server.host, server.port)
        assert sent(ask, 0, "a")[1]["repeated"] is False
        assert sent(ask, 0, "a")[1] == {"topic": "raw", "records": 0, "parts": [], "token": "raw/0:1", "repeated": True}
        assert sent(ask, 2, "c")[1]["code"] == "sequence-gap"
        assert sent(ask, 1, "b" * (2 << 20))[0] == 413  # a number that was refused is free
        assert sent(ask, 1, "b")[1]["token"] == "raw/0:2"
    with Server(application(node)).running() as server:
        ask = Client(server.host, server.port)
        assert sent(ask, 1, "b")[1]["repeated"] is True
        log.writer("http:till")  # another server has it meanwhile
        assert sent(ask, 2, "c")[1]["token"] == "raw/0:3"
        assert ask("POST", "/topics/raw/records", [], headrace_producer="till")[1]["code"] == "bad-request"
    assert [record.value for record in log.read("raw", 0, 0).records()] == [b"a", b"b", b"c"]


def test_reading_starts_at_the_requested_position(ask: Client, log: EmbeddedLog) -> None:
    ask.done("POST", "/topics/raw/records", [{"value": str(i), "$timestamp": 1000 * i} for i in range(10)])

    def values(query: str) -> list[str]:
        return [row["value"] for row in ask.done("GET", f"/topics/raw/records?{query}")["records"]]

    assert values("limit=2") == ["0", "1"]
    assert values("partition=0&offset=8") == ["8", "9"]
    assert values("from=1970-01-01T00:00:07Z&limit=1") == ["7"]
    assert values("from=end") == []
    assert values("from=raw/0:9") == ["9"]
    log.truncate("raw", 0, 5)
    assert values("from=beginning&limit=1") == ["5"]
    assert log.bounds("raw")[0] == Bounds(5, 10)
    for query, status, code in (
        ("from=raw/0:3", 410, "offset-lost"),
        ("from=raw/0:11", 416, "offset-out-of-range"),
        ("from=orders/0:3", 400, "bad-position-token"),
        ("from=nowhere", 400, "bad-position-token"),
        ("partition=3", 404, "unknown-partition"),
        ("offset=3", 400, "bad-request"),
        ("limit=0", 400, "bad-request"),
        ("limit=10001", 400, "bad-request"),
        ("limit=x", 400, "bad-request"),
        ("lim=1", 400, "bad-request"),
    ):
        answered, told = ask("GET", f"/topics/raw/records?{query}")
        assert (answered, told["code"]) == (status, code), query


def test_pages_can_be_read_as_arrow(ask: Client) -> None:
    ask.done("POST", PATH, [{"id": i, "city": "x"} for i in range(20)])
    status, body, headers = ask.raw("GET", f"/api/v1{PATH}?limit=15", headers={"accept": ARROW})
    rows = pa.ipc.open_stream(body).read_all()
    assert (status, headers["content-type"], rows.num_rows) == (200, ARROW, 15)
    following = headers["headrace-next"]
    _, body, _ = ask.raw("GET", f"/api/v1{PATH}?from={quote(following)}", headers={"accept": ARROW})
    rest = pa.ipc.open_stream(body).read_all()
    assert sorted(rows.column("id").to_pylist() + rest.column("id").to_pylist()) == list(range(20))
    assert set(rows.column("$partition").to_pylist()) <= {0, 1}
    assert ask.done("POST", PATH, stream(*rest.to_batches()), content_type=ARROW)["records"] == 5
    assert ask("GET", PATH, accept="text/html")[0] == 415


def test_a_page_is_bounded_in_bytes(ask: Client, log: EmbeddedLog) -> None:
    for i in range(20):
        ask.done("POST", "/topics/raw/records", [{"value": str(i) * 900_000}] if i < 10 else [{"value": "x" * 900_000}])
    page = ask.done("GET", "/topics/raw/records?limit=1000")
    assert 1 <= len(page["records"]) < 20
    assert page["behind"] == 20 - len(page["records"])
    assert len(everything(ask, "raw", 1000)) == 20


def test_the_bytes_of_concurrent_requests_are_bounded(ask: Client, monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr("headrace.serve.api.request_context._HELD", 1000)
    with Server(application(node)).running() as server:
        small = Client(server.host, server.port)
        for _ in range(3):  # what was held is given back
            assert small("POST", "/topics/raw/records", [{"value": "x" * 900}])[0] == 201
            assert small("POST", "/topics/raw/records", [{"value": "x" * 1000}])[1]["code"] == "server-busy"
