"""The client, with a real server and with one that fails."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.client import Client
from headrace.client.decimal_json import format_json, parse_json
from headrace.client.exchange import ServerAddress
from headrace.errors import (
    BadRequest,
    ColumnNotFound,
    ConnectionLost,
    ServerBusy,
    ServerFailed,
    ServerRefused,
    ServerUnreachable,
    SourceNotFound,
    TooManyRequests,
    WrongType,
)
from tests.unit.client.conftest import Serve
from tests.unit.control.test_node import CLICKS
from tests.unit.serve.ksql.test_app import address, log

__all__ = ["address", "log"]  # fixtures

OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


HEAD = OK + chunk('{"queryId":"q","columnNames":["A"],"columnTypes":["BIGINT"]}\n')
END = b"0\r\n\r\n"


def test_statements_are_executed_and_reported(address: str) -> None:
    client = Client(address)
    (told,) = client.execute(CLICKS)
    assert told["commandStatus"]["message"] == "Stream created"
    (told,) = client.execute("SHOW VARIABLES;", variables={"x": "y"})
    assert told["variables"] == [{"name": "x", "value": "y"}]
    (told,) = client.execute("LIST PROPERTIES;", {"a": "b"})
    assert {row["name"]: row["value"] for row in told["properties"]}["a"] == "b"
    assert client.info()["serverStatus"] == "RUNNING"


def test_a_refusal_raises_the_error_of_the_server(address: str) -> None:
    with pytest.raises(ColumnNotFound) as caught:
        Client(address).execute(CLICKS + "CREATE STREAM x AS SELECT\n nothing FROM clicks;")
    assert caught.value.where == "line 2:2"
    assert not caught.value.what.startswith("line")
    assert caught.value.fix
    with pytest.raises(SourceNotFound):
        Client(address).execute("DESCRIBE nothing;")


def busy(status: int, code: str) -> bytes:
    body = b'{"code": "%s", "message": "too much"}' % code.encode()
    return b"HTTP/1.1 %d No\r\nRetry-After: 0\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def test_a_request_that_the_server_did_not_start_is_sent_again(broken: Serve) -> None:
    refusals = busy(503, "server-busy"), busy(429, "too-many-requests")
    with Client(broken(*refusals, HEAD + chunk("[1]\n") + END)).query("SELECT 1;") as rows:
        assert list(rows) == [[1]]
    assert Client(broken(refusals[1], OK + chunk("[]") + END)).execute("LIST STREAMS;") == []


def test_a_refused_request_is_sent_again_a_few_times_only(broken: Serve) -> None:
    with pytest.raises(TooManyRequests, match="too much"):
        Client(broken(*[busy(429, "too-many-requests")] * 5)).info()


def test_statements_that_a_busy_server_may_have_begun_are_not_sent_again(broken: Serve) -> None:
    with pytest.raises(ServerBusy):
        Client(broken(busy(503, "server-busy"))).execute("CREATE TYPE t AS STRUCT<a INT>;")


def test_an_unreachable_server_is_an_error() -> None:
    with pytest.raises(ServerUnreachable, match=r"no server responds at http://127\.0\.0\.1:1:"):
        Client("127.0.0.1:1").info()


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http://x:99999", "http://me@x", "x:y"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(BadRequest):
        Client(address)


def test_addresses_are_completed() -> None:
    assert str(ServerAddress.parse("https://host/path/")) == "https://host:443/path"
    assert str(ServerAddress.parse("localhost:8088")) == "http://localhost:8088"
    assert str(ServerAddress.parse("http://[::1]:8088")) == "http://[::1]:8088"


# -- servers that are not ours, or break ----------------------------------------------------------------------------


def test_an_unknown_error_response_is_an_error(broken: Serve) -> None:
    body = b'{"@type":"generic_error","error_code":40001,"message":"no"}'
    address = broken(b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    with pytest.raises(ServerRefused, match="no"):
        Client(address).execute("x;")


def test_a_server_that_is_not_ready_is_an_error(broken: Serve) -> None:
    body = b'{"@type":"generic_error","error_code":50300,"message":"soon"}'
    address = broken(b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    with pytest.raises(ServerUnreachable, match="soon"):
        Client(address).execute("x;")


def test_a_response_that_is_not_json_is_an_error(broken: Serve) -> None:
    with pytest.raises(ServerFailed, match="no JSON: <html>"):
        Client(broken(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")).info()


def test_a_truncated_response_is_an_error(broken: Serve) -> None:
    with pytest.raises(ConnectionLost):
        Client(broken(b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n[")).execute("x;")
    with pytest.raises(ConnectionLost):
        Client(broken(b"")).execute("x;")


def test_rows_are_read_from_chunks_of_any_size(broken: Serve) -> None:
    with Client(broken(HEAD + chunk("[1]\n[2") + chunk("]\n[3.50]\n\n") + chunk("[4]") + END)).query("x;") as rows:
        assert (rows.names, rows.types, rows.query_id) == (("A",), ("BIGINT",), "q")
        assert list(rows) == [[1], [2], [Decimal("3.50")], [4]]


@pytest.mark.parametrize("cut", [b"", b"5\r\n[2]", chunk("[2")], ids=["between", "in a chunk", "in a row"])
def test_a_truncated_row_stream_raises_an_error(broken: Serve, cut: bytes) -> None:
    with Client(broken(HEAD + chunk("[1]\n") + cut)).query("x;") as rows:
        going = iter(rows)
        assert next(going) == [1]
        with pytest.raises(ConnectionLost):
            next(going)


def test_an_error_within_the_rows_is_raised(broken: Serve) -> None:
    error = '{"@type":"generic_error","error_code":50000,"code":"source-not-found","message":"gone"}\n'
    with Client(broken(HEAD + chunk("[1]\n" + error) + END)).query("x;") as rows:
        going = iter(rows)
        assert next(going) == [1]
        with pytest.raises(SourceNotFound, match="gone"):
            next(going)


def test_a_response_without_columns_is_an_error(broken: Serve) -> None:
    with pytest.raises(ServerFailed):
        Client(broken(OK + chunk("[1]\n") + END)).query("x;")


def test_a_truncated_insert_response_is_an_error(broken: Serve) -> None:
    told = OK + chunk('{"status":"ok","seq":0}\n')
    with pytest.raises(ConnectionLost) as caught:
        Client(broken(told)).insert("s", [{"a": 1}, {"a": 2}])
    assert caught.value.where == "after 1 acknowledged rows"
    with pytest.raises(ConnectionLost, match="1 of 2 rows"):
        Client(broken(told + END)).insert("s", [{"a": 1}, {"a": 2}])


def test_a_refused_insert_raises_the_error(broken: Serve) -> None:
    refused = '{"@type":"generic_error","error_code":40000,"code":"bad-request","message":"too long"}\n'
    with pytest.raises(BadRequest, match="too long"):
        Client(broken(OK + chunk('{"status":"ok","seq":0}\n' + refused) + END)).insert("s", [{"a": 1}, {"a": 2}])


def test_a_refused_row_does_not_prevent_the_others(broken: Serve) -> None:
    refused = '{"status":"error","seq":0,"error_code":40000,"code":"wrong-type","message":"no"}\n'
    answer = OK + chunk(refused + '{"status":"ok","seq":1}\n') + END
    with pytest.raises(WrongType) as caught:
        Client(broken(answer)).insert("s", [{"a": "x"}, {"a": 2}])
    assert caught.value.where == "row 0, counted from 0"
    told: list[tuple[int, str]] = []
    client = Client(broken(answer))
    assert client.insert("s", [{"a": "x"}, {"a": 2}], lambda number, error: told.append((number, error.code))) == 1
    assert told == [(0, "wrong-type")]


# -- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1.50", "12345678901234567890.123456789012345678", "0.1", "1E+5", "7", "null", '"ü"'])
def test_numbers_keep_their_digits(text: str) -> None:
    assert format_json(parse_json(text)) == text
    assert format_json({"a": [parse_json(text)]}) == f'{{"a": [{text}]}}'
