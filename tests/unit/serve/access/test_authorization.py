"""What people get over HTTP: every route, every listing, and every way around a row filter."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from typing import Any

import pytest

from headrace.access.audit import MAX_DISTINCT_REFUSALS, read_audit
from headrace.access.grants import Grant
from headrace.contracts import Append, TopicPartition
from headrace.record import Record
from headrace.serve.api.app import PREFIX, ROUTES
from headrace.serve.api.parameters import BODY, PATH, QUERY, parameters_of
from headrace.serve.api.resources import dashboards
from headrace.serve.api.route import AccessLevel, RequiredPrivilege, Route
from headrace.serve.application import PUBLIC_ROUTES
from headrace.serve.ksql.app import ROUTES as KSQL
from tests.unit.serve.access.conftest import PASSWORD, Person, Place
from tests.unit.serve.api.websocket_client import Socket
from tests.wait import wait_until

EARLIEST = {"auto.offset.reset": "earliest"}
PEOPLE = "SELECT NAME FROM PEOPLE WHERE ID = 2;"

# -- all routes -----------------------------------------------------------------------------------------------------

_NAMES = {"topic": "secrets", "view": "RAW", "query": "CSAS_COPIES_4", "group": "g", "app": "a", "partition": "0"}
_BODIES: dict[str, Any] = {
    "text": "LIST STREAMS;",
    "name": "x",
    "source": "1",
    "to": "end",
    "topics": [],
    "options": {},
}
FOR_ALL_WHO_ARE_KNOWN = {"get_session", "end_session", "change_password"}
"""What concerns oneself."""


def _asked(route: Route) -> tuple[str, Any]:
    """A path and a body that name what somebody may not touch."""
    declared = () if route.parameters is None else parameters_of(route.parameters)
    named = {**_NAMES, "topic": "secrets.dead"} if "dead-letters" in route.path else _NAMES
    path = re.sub(r"{(\w+)}", lambda found: named.get(found[1], "0"), route.path)
    query = [
        f"{one.name}=SELECT+*+FROM+SECRETS+EMIT+CHANGES;" for one in declared if one.place == QUERY and one.required
    ]
    body = {one.name: _BODIES.get(one.name, "x") for one in declared if one.place == BODY and one.required}
    return f"{PREFIX}{path}?{'&'.join(query)}", body or ([] if any(one.place != PATH for one in declared) else None)


def test_no_route_is_open_or_reveals_hidden_names(declared: Place) -> None:
    stranger = declared.user("stranger")
    for route in ROUTES:
        path, body = _asked(route)
        if route.needs is AccessLevel.ANYBODY:
            assert (route.method, PREFIX + route.path) in PUBLIC_ROUTES
            continue
        assert declared.nobody(route.method, path, body).status == 401, route
        answer = stranger(route.method, path, body)
        if route.needs is AccessLevel.ADMIN or isinstance(route.needs, RequiredPrivilege):
            assert answer.status == 403, (route, answer)
        assert answer.status < 500, (route, answer)
        assert b"rosebud" not in answer.body
        if answer.status < 300 and route.do.__name__ not in FOR_ALL_WHO_ARE_KNOWN:
            assert not re.search(rb"SECRETS|COPIES|PEOPLE|secrets|people", answer.body), (route, answer)
            assert route.method == "GET" or route.path == "/statements", route  # LIST STREAMS is all that was sent


def test_every_ksqldb_route_except_health_needs_credentials(declared: Place) -> None:
    stranger = declared.user("stranger")
    for method, path, _, _ in KSQL:
        body = {"ksql": "LIST STREAMS EXTENDED;"} if method == "POST" else None
        if (method, path) not in PUBLIC_ROUTES:
            assert declared.nobody(method, path, body).status == 401
        assert b"SECRETS" not in stranger(method, path, body).body
    for path in ("/query", "/query-stream", "/close-query", "/inserts-stream"):
        assert declared.nobody("POST", path, {}).status == 401
    assert stranger("POST", "/query", {"ksql": "SELECT * FROM SECRETS;"}).code == "source-not-found"
    assert stranger("POST", "/query-stream", {"sql": "PRINT 'secrets' FROM BEGINNING LIMIT 1;"}).status == 403
    lines = b'{"target": "SECRETS"}\n{"ID": 1, "WORD": "x"}\n'
    assert stranger("POST", "/inserts-stream", lines).code == "source-not-found"
    assert stranger("GET", "/metrics").body.count(b"secrets") == 0


def test_a_refusal_names_the_missing_grant(declared: Place) -> None:
    stranger = declared.user("stranger")
    told = stranger("POST", "/ksql", {"ksql": "CREATE TYPE T AS STRUCT<X INT>;"})
    assert (told.status, told.code) == (403, "not-allowed")
    assert told.told["message"].endswith('stranger may not create type "T"')
    assert "role grant" in told.told["fix"]
    answer = stranger("GET", "/api/v1/topics/orders/records")
    assert (answer.status, answer.told["what"]) == (403, 'stranger may not read topic "orders"')


def test_granted_actions_are_allowed(declared: Place) -> None:
    clerk = declared.user("clerk", "clerks")
    assert [one["name"] for one in clerk("GET", "/api/v1/topics").told] == ["orders"]
    assert clerk("GET", "/api/v1/topics/orders/records").status == 200
    assert clerk("POST", "/api/v1/topics/orders/records", [{"key": "9", "value": "{}"}]).status == 201
    assert clerk("POST", "/inserts-stream", b'{"target": "ORDERS"}\n{"ID": 7, "REGION": "EU"}\n').status == 200
    assert clerk("GET", "/api/v1/topics/orders.dead/records").status == 403
    assert b'topic="orders"' in clerk("GET", "/metrics").body
    assert len(clerk.rows("SELECT * FROM ORDERS;")) == 4
    assert clerk("DELETE", "/api/v1/topics/orders").status == 403
    assert clerk("POST", "/api/v1/apps", {"source": "1"}).status == 403


def test_internal_topics_are_refused_to_all_users(declared: Place) -> None:
    admin = declared.user("root", "admin")
    for topic in ("__access", "__audit", "__statements"):
        assert admin("GET", f"/api/v1/topics/{topic}/records").status == 404
        assert admin("POST", f"/api/v1/topics/{topic}/records", [{"value": "{}"}]).status == 404
        made = f"CREATE STREAM S (X STRING) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='KAFKA');"
        assert admin("POST", "/ksql", {"ksql": made}).status == 400
        assert admin("POST", "/query", {"ksql": f"PRINT '{topic}' FROM BEGINNING LIMIT 1;"}).status == 400


def test_a_dead_letter_cannot_replay_a_record_of_an_internal_topic(declared: Place) -> None:
    admin, log = declared.user("root", "admin"), declared.node.log
    log.create_topic("x.dead")
    for origin in ("topic __access, partition 0, offset 0", "__access/0/0"):
        log.append([Append("x.dead", [Record(b"x", headers=(("where", origin.encode()),))])])
    for offset in (0, 1):
        answer = admin("POST", f"/api/v1/dead-letters/x.dead/0/{offset}/replay")
        assert (answer.status, answer.code) == (409, "not-replayable")


def test_producer_sequences_are_separate_for_each_user(declared: Place) -> None:
    """Who takes another's name and number cannot have that one's records taken for repeated ones."""
    first, second = declared.user("one", "clerks"), declared.user("two", "clerks")
    for person in (first, second):
        answer = person(
            "POST",
            "/api/v1/topics/orders/records",
            [{"value": "{}"}],
            headrace_producer="p",
            headrace_sequence="0",
        )
        assert (answer.status, answer.told["repeated"]) == (201, False)


# -- around a row filter --------------------------------------------------------------------------------------------


def test_prepared_queries_are_not_shared_between_users(declared: Place) -> None:
    """Of one shape, asked by turns: what lies ready for one is not another's."""
    admin, eu = declared.user("root", "admin"), declared.user("alice", "eu")
    wait_until(lambda: admin.rows(PEOPLE) == [["bob"]])
    for _ in range(3):
        assert admin.rows(PEOPLE) == [["bob"]]
        assert eu.rows(PEOPLE) == []
        assert eu.rows(PEOPLE.replace("2", "1")) == [["ann"]]
        assert admin.rows(PEOPLE.replace("2", "1")) == [["ann"]]
    assert declared.user("stranger")("POST", "/query-stream", {"sql": PEOPLE}).code == "source-not-found"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?where=ID%20%3D%202",
        "?where=TRUE%20OR%20REGION%20%3D%20'US'",
        "?select=NAME,REGION&order=NAME",
        "?where=ID%20%3D%202%20--",
        "?select=*%20FROM%20RAW%20--",
    ],
)
def test_row_filters_apply_to_views(declared: Place, query: str) -> None:
    admin, eu = declared.user("root", "admin"), declared.user("alice", "eu")
    wait_until(lambda: admin.rows(PEOPLE) == [["bob"]])
    assert b"bob" not in eu("GET", f"/api/v1/views/PEOPLE/rows{query}").body
    assert b"bob" not in eu("GET", f"/api/v1/views/RAW/rows{query}").body


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/topics/people/records", None),
        ("GET", "/api/v1/topics/people/tail?from=beginning", None),
        ("GET", "/api/v1/topics/people", None),
        ("GET", "/api/v1/dead-letters/people.dead", None),
        ("POST", "/query-stream", {"sql": "PRINT 'people' FROM BEGINNING LIMIT 1;"}),
        ("POST", "/query", {"ksql": "PRINT people FROM BEGINNING LIMIT 1;"}),
        ("POST", "/ksql", {"ksql": "CREATE TABLE T AS SELECT * FROM PEOPLE;"}),
        ("POST", "/ksql", {"ksql": "INSERT INTO ORDERS SELECT * FROM ORDERS;"}),
        ("POST", "/api/v1/statements", {"text": "CREATE TABLE T AS SELECT * FROM PEOPLE;"}),
    ],
)
def test_a_row_filter_forbids_reading_or_copying_the_topic(declared: Place, method: str, path: str, body: Any) -> None:
    answer = declared.user("alice", "eu")(method, path, body)
    assert answer.status == 403, answer


def test_describe_reveals_nothing_about_hidden_rows(declared: Place) -> None:
    eu = declared.user("alice", "eu")
    told = eu("POST", "/ksql", {"ksql": "DESCRIBE PEOPLE EXTENDED;"}).told
    assert [field["name"] for field in told[0]["sourceDescription"]["fields"]] == ["ID", "REGION", "NAME"]
    assert "total-messages" not in json.dumps(told)
    assert [one["name"] for one in eu("GET", "/api/v1/views").told] == ["PEOPLE"]


# -- what goes on ---------------------------------------------------------------------------------------------------


class Pushed:
    """A question that goes on, read by a thread."""

    def __init__(self, person: Person, text: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", person.port, timeout=60)
        self._connection.request("POST", "/query-stream", json.dumps({"sql": text}), person.headers)
        self._answer: HTTPResponse = self._connection.getresponse()
        assert self._answer.status == 200
        self._answer.readline()  # the columns
        self.rows: list[Any] = []
        self.ended = False
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in iter(self._answer.readline, b""):
                self.rows.append(json.loads(line))
        except (IncompleteRead, OSError, ValueError):
            pass
        self.ended = True

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join()
        self._connection.close()


def _insert(place: Place, *rows: str) -> None:
    for row in rows:
        place.node.execute(f"INSERT INTO ORDERS VALUES {row};")


def test_push_queries_with_different_row_filters_are_not_shared(declared: Place) -> None:
    admin, eu, other = declared.user("root", "admin"), declared.user("alice", "eu"), declared.user("bob", "eu")
    text = "SELECT ID, REGION FROM ORDERS EMIT CHANGES;"
    with (
        closing(Pushed(admin, text)) as all_rows,
        closing(Pushed(eu, text)) as some,
        closing(Pushed(other, text)) as same,
    ):
        assert len(declared.node.push_queries.feeds) == 2  # those two who see the same share one
        _insert(declared, "(4, 'US')", "(5, 'EU')")
        wait_until(lambda: len(all_rows.rows) == 2 and bool(some.rows) and bool(same.rows))
        assert all_rows.rows == [[4, "US"], [5, "EU"]]
        assert some.rows == same.rows == [[5, "EU"]]


def test_a_push_query_ends_when_its_right_is_revoked(declared: Place) -> None:
    alice, book = declared.user("alice", "clerks"), declared.node.guard.users
    declared.user("bob")
    with closing(Pushed(alice, "SELECT ID FROM ORDERS EMIT CHANGES;")) as pushed:
        _insert(declared, "(4, 'US')")
        wait_until(lambda: pushed.rows == [[4]])
        book.set_roles("bob", ["eu"], by="local")  # of another: nothing ends
        _insert(declared, "(5, 'US')")
        wait_until(lambda: pushed.rows == [[4], [5]])
        book.set_roles("alice", ["eu"], by="local")
        _insert(declared, "(6, 'US')")
        wait_until(lambda: pushed.ended)
        assert pushed.rows == [[4], [5]]


def test_a_push_query_ends_when_its_token_expires(declared: Place) -> None:
    declared.user("alice", "clerks")
    token, _, ends_at = declared.node.guard.make_token("alice", timedelta(seconds=2))
    alice = declared.nobody.showing(authorization=f"Bearer {token}")
    with closing(Pushed(alice, "SELECT ID FROM ORDERS EMIT CHANGES;")) as pushed:
        wait_until(lambda: time.time() > ends_at + 6)  # clocks may differ by some seconds
        _insert(declared, "(4, 'US')")
        wait_until(lambda: pushed.ended)
        assert pushed.rows == []


def test_a_websocket_ends_with_the_user(declared: Place) -> None:
    clerk = declared.user("clerk", "clerks")
    path, shown = "/api/v1/topics/orders/tail", [("authorization", clerk.headers["authorization"])]
    with Socket("127.0.0.1", declared.server.port, path, shown) as socket:
        assert socket.message()["records"] == []
        declared.node.guard.users.remove_user("clerk", by="local")
        _insert(declared, "(4, 'US')")
        assert _last(socket) is None


def _last(socket: Socket) -> Any:
    """What comes before the end; None if nothing does."""
    try:
        return socket.message()
    except Exception:  # the connection breaks off
        return None


def test_websockets_follow_the_grants(declared: Place) -> None:
    eu = declared.user("alice", "eu")
    shown = [("authorization", eu.headers["authorization"])]
    with Socket("127.0.0.1", declared.server.port, "/api/v1/topics/orders/tail", shown) as socket:
        assert (socket.status, json.loads(socket.refused)["code"]) == (403, "not-allowed")
    watch = "/api/v1/watch?from=beginning&sql=SELECT+ID+FROM+{}+EMIT+CHANGES+LIMIT+2;"
    with Socket("127.0.0.1", declared.server.port, watch.format("SECRETS"), shown) as socket:
        assert json.loads(socket.refused)["code"] == "source-not-found"
    with Socket("127.0.0.1", declared.server.port, watch.format("ORDERS"), shown) as socket:
        changes = [change for message in _messages(socket) for change in message.get("changes", ())]
        assert changes == [{"row": [1]}, {"row": [3]}]


def _messages(socket: Socket) -> Iterator[Any]:
    while "end" not in (message := socket.message()):
        yield message


def test_a_user_cannot_stop_another_users_query(declared: Place) -> None:
    alice, bob = declared.user("alice", "clerks"), declared.user("bob", "clerks")
    connection = HTTPConnection("127.0.0.1", alice.port, timeout=60)
    with closing(connection):
        connection.request(
            "POST", "/query-stream", json.dumps({"sql": "SELECT * FROM ORDERS EMIT CHANGES;"}), alice.headers
        )
        answer = connection.getresponse()
        query = json.loads(answer.readline())["queryId"]
        assert bob("POST", "/close-query", {"queryId": query}).status == 400
        assert alice("POST", "/close-query", {"queryId": query}).status == 200
        answer.read()


def test_a_user_sees_and_kills_own_processes_and_an_admin_all(declared: Place) -> None:
    alice, bob, root = declared.user("alice", "clerks"), declared.user("bob", "clerks"), declared.user("root", "admin")
    text = "SELECT * FROM ORDERS EMIT CHANGES;"

    def shown(person: Person) -> list[Any]:
        return person("POST", "/ksql", {"ksql": "SHOW PROCESSES;"}).told[0]["processes"]

    connection = HTTPConnection("127.0.0.1", alice.port, timeout=60)
    with closing(connection):
        connection.request("POST", "/query-stream", json.dumps({"sql": text}), alice.headers)
        answer = connection.getresponse()
        answer.readline()
        (process,) = shown(alice)
        facts = {"user": "alice", "kind": "PUSH", "state": "RUNNING", "queryString": text, "memory": None}
        assert facts.items() <= process.items()
        assert ([one["id"] for one in shown(root)], shown(bob)) == ([process["id"]], [])
        hidden, absent = (bob("POST", "/ksql", {"ksql": f"KILL {id};"}) for id in (process["id"], 999))
        assert hidden.told["message"].replace(str(process["id"]), "999") == absent.told["message"]
        assert (hidden.status, hidden.code, hidden.told["fix"]) == (absent.status, absent.code, absent.told["fix"])
        assert hidden.code == "unknown-process"
        (killed,) = root("POST", "/ksql", {"ksql": f"KILL '{process['id']}';"}).told
        assert (killed["@type"], killed["id"]) == ("killed", str(process["id"]))
        assert b"query-killed" in answer.read() or not shown(alice)
    assert shown(root) == []


def test_a_user_cannot_change_another_users_dashboard(declared: Place) -> None:
    alice, bob, root = declared.user("alice", "reader"), declared.user("bob", "reader"), declared.user("root", "admin")
    path, panels = "/api/v1/dashboards/sales", [{"kind": "number", "view": "ORDERS", "y": "ID"}]
    made = alice("PUT", path, {"title": "Sales", "panels": panels, "sharing": "read"})
    assert (made.status, made.told["owner"]) == (200, "alice")
    assert bob("GET", path).told == made.told
    assert [bob("PUT", path, {"panels": []}).code, bob("DELETE", path).code] == ["not-allowed", "not-allowed"]
    assert root("PUT", path, {"title": "All sales", "panels": panels}).told["owner"] == "alice"
    assert alice("DELETE", path).status == 204
    assert alice("GET", path).status == 404


def test_a_private_dashboard_is_unknown_to_others(declared: Place) -> None:
    alice, bob, root = declared.user("alice", "reader"), declared.user("bob", "reader"), declared.user("root", "admin")
    path, other = "/api/v1/dashboards/sales", "/api/v1/dashboards/costs"
    assert alice("PUT", path, {"panels": []}).told["sharing"] == "private"
    hidden, unknown = bob("GET", path), bob("GET", other)
    assert json.dumps(hidden.told).replace("sales", "costs") == json.dumps(unknown.told)
    assert [bob("DELETE", path).status, bob("DELETE", other).status] == [404, 404]
    assert [bob("GET", "/api/v1/dashboards").told, len(root("GET", "/api/v1/dashboards").told)] == [[], 1]
    assert bob("PUT", path, {"panels": []}).code == "not-allowed"  # a name exists once


def test_a_dashboard_shared_for_editing_keeps_its_owner(declared: Place) -> None:
    alice, bob = declared.user("alice", "reader"), declared.user("bob", "reader")
    path, panels = "/api/v1/dashboards/sales", [{"kind": "number", "view": "ORDERS", "y": "ID"}]
    assert alice("PUT", path, {"panels": [], "sharing": "edit"}).status == 200
    edited = bob("PUT", path, {"panels": panels})
    assert (edited.told["owner"], edited.told["sharing"], edited.told["panels"]) == ("alice", "edit", panels)
    assert bob("PUT", path, {"panels": [], "sharing": "private"}).code == "not-allowed"
    assert bob("DELETE", path).code == "not-allowed"
    assert alice("PUT", path, {"panels": panels, "sharing": "all"}).code == "bad-request"
    assert alice("PUT", path, {"panels": panels, "sharing": "private"}).told["sharing"] == "private"
    assert bob("GET", path).status == 404


def test_dashboards_have_quotas(declared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = declared.user("alice", "reader"), declared.user("bob", "reader")
    monkeypatch.setattr(dashboards, "MAX_DASHBOARDS", 3)
    path = "/api/v1/dashboards"
    assert [alice("PUT", f"{path}/d{number}", {}).status for number in range(4)] == [200, 200, 200, 400]
    assert alice("PUT", f"{path}/d1", {"title": "Again"}).status == 200
    assert bob("PUT", f"{path}/b", {}).status == 200
    large = {"panels": [{"kind": "number", "where": "x" * dashboards.MAX_BYTES}]}
    assert bob("PUT", f"{path}/b", large).code == "bad-request"
    assert bob("GET", f"{path}/b").told["panels"] == []


# -- around what is granted -----------------------------------------------------------------------------------------


def _grant(place: Place, role: str, *texts: str) -> None:
    for text in texts:
        place.node.guard.users.grant(role, Grant.of(*text.split()), by="local")


@pytest.fixture
def maker(declared: Place) -> Person:
    """Sees some rows of ORDERS, may write its topic, and make what is called MY_..."""
    _grant(declared, "maker", "create source MY_*", "read source MY_*", "read source RAW", "write topic orders")
    return declared.user("carol", "maker", "eu")


def test_a_query_into_an_existing_topic_gives_no_right_to_read_it(declared: Place, maker: Person) -> None:
    made = "CREATE STREAM MY_X WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON') AS SELECT * FROM MY_S;"
    declared.node.execute(
        "CREATE STREAM MY_S (ID INT KEY, REGION STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
    )
    answer = maker("POST", "/ksql", {"ksql": made})
    assert (answer.status, answer.code) == (403, "not-allowed")


def test_a_user_cannot_take_the_name_of_another_users_query(declared: Place, maker: Person) -> None:
    made = "CREATE TABLE MY_Y WITH (QUERY_ID='csas_copies_4') AS SELECT * FROM RAW;"
    answer = maker("POST", "/ksql", {"ksql": made})
    assert answer.status == 400
    assert answer.told["message"].endswith("Query ID 'CSAS_COPIES_4' already exists.")
    assert declared.node.catalog.queries["CSAS_COPIES_4"].sink.name == "COPIES"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT NOPE FROM SECRETS EMIT CHANGES;",
        "SELECT O.ID FROM ORDERS O JOIN SECRETS S WITHIN 1 HOUR ON O.ID = S.NOPE EMIT CHANGES;",
        "SELECT X FROM (SELECT NOPE AS X FROM SECRETS) EMIT CHANGES;",
    ],
)
def test_an_error_does_not_reveal_columns_of_hidden_sources(declared: Place, text: str) -> None:
    eu = declared.user("alice", "eu")
    asked = eu("POST", "/query-stream", {"sql": text})
    assert (asked.status, asked.code) == (400, "source-not-found")
    copied = eu("POST", "/ksql", {"ksql": f"CREATE STREAM MY_Z AS {text}"})
    filled = eu("POST", "/ksql", {"ksql": "INSERT INTO SECRETS SELECT * FROM ORDERS;"})
    varied = eu("POST", "/ksql", {"ksql": "DEFINE S = 'SECRETS'; EXPLAIN SELECT NOPE FROM ${S} EMIT CHANGES;"})
    refused = [entry.details["what"] for entry in read_audit(declared.node.log) if entry.action == "refused"]
    assert "Source `SECRETS` does not exist." in refused
    for answer in (asked, copied, filled, varied):
        assert answer.code == "source-not-found", answer
        assert b"WORD" not in answer.body


def test_a_source_in_use_does_not_name_hidden_queries(declared: Place) -> None:
    declared.node.execute("CREATE STREAM HIDDEN AS SELECT * FROM ORDERS;")
    clerk = declared.user("alice", "clerks")
    answer = clerk("POST", "/ksql", {"ksql": "DROP STREAM ORDERS;"})
    assert (answer.status, answer.code) == (400, "source-in-use")
    assert b"HIDDEN" not in answer.body


def test_a_topic_in_use_does_not_name_hidden_sources(declared: Place) -> None:
    declared.node.guard.users.grant("cleaners", Grant.of("drop", "topic", "secrets"), by="local")
    answer = declared.user("alice", "cleaners")("DELETE", "/api/v1/topics/secrets")
    assert (answer.status, answer.code) == (409, "topic-in-use")
    assert b"SECRETS" not in answer.body


def test_hidden_alerts_and_notifiers_are_unknown(declared: Place) -> None:
    declared.node.execute(
        "CREATE NOTIFIER HOOK TYPE WEBHOOK WITH (URL='https://hooks.example/SECRET');"
        "CREATE ALERT SEC ON SECRETS WHEN ID > 1 NOTIFY HOOK;"
    )
    eu = declared.user("alice", "eu")
    for text in ("LIST NOTIFIERS;", "LIST ALERTS;", "DESCRIBE ALERT SEC;", "DESCRIBE ALERT NOPE;", "MUTE ALERT NOPE;"):
        answer = eu("POST", "/ksql", {"ksql": text})
        assert answer.status < 500, (text, answer)
        assert not re.search(rb"hooks.example|HOOK|SECRETS", answer.body), (text, answer)
        if "NOPE" in text:
            assert b"SEC" not in answer.body, answer


def test_the_right_to_create_a_topic_does_not_allow_to_shorten_its_retention(declared: Place) -> None:
    _grant(declared, "maker", "create topic orders")
    maker = declared.user("carol", "maker")
    path = "/api/v1/topics/orders"
    assert maker("PATCH", path, {"options": {"retention_bytes": "1MB"}}).status == 403
    assert maker("PATCH", path, {"options": {"partitions": 2}}).status == 200
    _grant(declared, "maker", "drop topic orders")
    assert maker("PATCH", path, {"options": {"retention_bytes": "1MB"}}).status == 200
    assert maker("PATCH", path, {"options": {"retention_bytes": None}}).status == 200
    noted = [entry.details["options"] for entry in read_audit(declared.node.log) if entry.action == "topic-altered"]
    assert [list(options) for options in noted] == [["partitions"], ["retention_bytes"], ["retention_bytes"]]


def test_random_tokens_do_not_fill_the_audit_log(declared: Place) -> None:
    for number in range(60):
        shown = declared.nobody.showing(authorization=f"Bearer {'x' * number}.y.z")
        assert shown("GET", "/api/v1/topics").status == 401
    noted = [entry for entry in read_audit(declared.node.log) if entry.action == "token-refused"]
    assert 1 <= len(noted) <= MAX_DISTINCT_REFUSALS


def test_a_push_query_started_just_before_its_token_expires_ends(declared: Place) -> None:
    declared.user("alice", "clerks")
    token, _, ends_at = declared.node.guard.make_token("alice", timedelta(seconds=1))
    wait_until(lambda: time.time() > ends_at + 0.5)  # clocks may differ: it still counts
    alice = declared.nobody.showing(authorization=f"Bearer {token}")
    with closing(Pushed(alice, "SELECT ID FROM ORDERS EMIT CHANGES;")) as pushed:
        wait_until(lambda: time.time() > ends_at + 6)
        _insert(declared, "(4, 'US')")
        wait_until(lambda: pushed.ended)
        assert pushed.rows == []


def test_a_websocket_ends_with_the_session(declared: Place) -> None:
    declared.user("clerk", "clerks")
    begun = declared.nobody("POST", "/api/v1/session", {"user": "clerk", "password": PASSWORD})
    cookie = begun.headers["set-cookie"].partition(";")[0]
    origin = f"http://127.0.0.1:{declared.server.port}"
    path, shown = "/api/v1/topics/orders/tail", [("cookie", cookie), ("origin", origin)]
    with Socket("127.0.0.1", declared.server.port, path, shown) as socket:
        assert socket.message()["records"] == []
        ended = declared.nobody("DELETE", "/api/v1/session", None, cookie=cookie, x_csrf_token=begun.told["csrf"])
        assert ended.status == 204
        _insert(declared, "(4, 'US')")
        assert _last(socket) is None


def test_only_an_admin_gets_the_names_of_topics_and_groups_as_suggestions(declared: Place) -> None:
    declared.node.guard.users.grant("near", Grant.of("read", "topic", "secret*"), by="local")
    declared.node.guard.users.grant("near", Grant.of("read", "group", "bil*"), by="local")
    declared.node.guard.users.grant("near", Grant.of("create", "topic", "*"), by="local")
    declared.node.log.reset_group("billing", {TopicPartition("orders", 0): 0})
    admin, person = declared.user("root", "admin"), declared.user("near", "near")
    for path, near in (("topics/secretz", "secrets"), ("groups/biling", "billing")):
        assert admin("GET", f"{PREFIX}/{path}").told["fix"] == f'did you mean "{near}"?'
        refused = person("GET", f"{PREFIX}/{path}").told
        assert refused["code"].startswith("unknown-")
        assert near not in refused["fix"]
    shown = list(person.headers.items())
    with Socket("127.0.0.1", declared.server.port, f"{PREFIX}/topics/secretz/tail", shown) as socket:
        assert json.loads(socket.refused)["fix"] == "check the name; LIST shows what you may see"
