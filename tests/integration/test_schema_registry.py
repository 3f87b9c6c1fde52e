"""The schema registry from outside: over HTTP, after kill -9, two at once, on both logs."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from headrace.contracts import Log
from headrace.errors import (
    BadFormatOption,
    BadRecord,
    IncompatibleSchema,
    PortInUse,
    RegistryUnreachable,
    UnknownSchema,
    UnknownSubject,
)
from headrace.faultpoints import VARIABLE
from headrace.formats.lookup import find_format
from headrace.formats.schema_registry.registry import HttpRegistry, MemoryRegistry, Version
from headrace.log.embedded import EmbeddedLog
from headrace.log.schema_registry import SCHEMAS_TOPIC, LogRegistry
from headrace.schema import Schema
from headrace.serve.http.server import Server
from headrace.serve.schema_registry.app import MAX_BODY_BYTES, registry_app

INT, TEXT = '"int"', '"string"'
TYPE = "application/vnd.schemaregistry.v1+json"


def record(*names: str, default: bool = False) -> str:
    more = {"default": None} if default else {}
    fields = [{"name": n, "type": ["null", "string"] if default else "string", **more} for n in names]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


class Client:
    """Asks one server, as curl would."""

    def __init__(self, server: Server) -> None:
        self.address = server.address
        self._place = (server.host, server.port)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection(*self._place, timeout=20)) as connection:
            connection.request(method, path, data, {"Content-Type": TYPE, **headers})
            answer = connection.getresponse()
            kind, text = answer.getheader("Content-Type"), answer.read()
        assert answer.status != 200 or kind == TYPE
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def good(self, method: str, path: str, body: Any = None) -> Any:
        status, value = self(method, path, body)
        assert status == 200, value
        return value

    def code(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        status, value = self(method, path, body, **headers)
        assert status == (value["error_code"] if value["error_code"] < 1000 else value["error_code"] // 100)
        assert value["message"]
        return value["error_code"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def ask(folder: Path) -> Iterator[Client]:
    with EmbeddedLog(folder) as log, Server(registry_app(LogRegistry(log))).running() as server:
        yield Client(server)


# -- over HTTP ------------------------------------------------------------------------------------------------------


def test_schemas_are_registered_and_looked_up(ask: Client) -> None:
    assert ask.good("GET", "/subjects") == []
    assert ask.good("POST", "/subjects/a-value/versions", {"schema": INT}) == {"id": 1}
    assert ask.good("POST", "/subjects/a-value/versions", {"schema": '{"type": "int"}'}) == {"id": 1}
    assert ask.good("POST", "/subjects/b-value/versions", {"schema": INT, "schemaType": "AVRO"}) == {"id": 1}
    assert ask.good("POST", "/subjects/c-value/versions", {"schema": "{}", "schemaType": "JSON"})["id"] == 2
    assert ask.good("GET", "/subjects") == ["a-value", "b-value", "c-value"]
    assert ask.good("GET", "/subjects?subjectPrefix=c") == ["c-value"]
    assert ask.good("GET", "/subjects/b-value/versions") == [1]
    one = {"subject": "b-value", "version": 1, "id": 1, "schema": INT}
    for version in ("1", "latest", "-1"):
        assert ask.good("GET", f"/subjects/b-value/versions/{version}") == one
    assert ask.good("POST", "/subjects/b-value", {"schema": INT}) == one
    assert ask.good("GET", "/subjects/b-value/versions/1/schema") == "int"
    assert ask.good("GET", "/subjects/b-value/versions/1/referencedby") == []
    assert ask.good("GET", "/schemas/ids/1") == {"schema": INT}
    assert ask.good("GET", "/schemas/ids/1/schema") == "int"
    assert ask.good("GET", "/schemas/ids/1/subjects") == ["a-value", "b-value"]
    both = [{"subject": f"{name}-value", "version": 1} for name in "ab"]
    assert ask.good("GET", "/schemas/ids/1/versions") == both
    assert ask.good("GET", "/subjects/c-value/versions/1")["schemaType"] == "JSON"
    assert ask.good("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert ask.good("GET", "/") == {}


def test_unknown_subjects_versions_and_schemas_are_refused(ask: Client) -> None:
    ask.good("POST", "/subjects/s/versions", {"schema": INT})
    assert ask.code("GET", "/subjects/none/versions") == 40401
    assert ask.code("GET", "/subjects/none/versions/1") == 40401
    assert ask.code("POST", "/subjects/none", {"schema": INT}) == 40401
    assert ask.code("DELETE", "/subjects/none") == 40401
    assert ask.code("GET", "/subjects/s/versions/2") == 40402
    assert ask.code("POST", "/subjects/s", {"schema": TEXT}) == 40403
    assert ask.code("GET", "/schemas/ids/99") == 40403
    assert ask.code("GET", "/config/s") == 40408
    assert ask.code("GET", "/mode/s") == 40409
    assert ask.code("GET", "/nowhere") == 404
    assert ask.code("PATCH", "/subjects") == 405


@pytest.mark.parametrize("version", ["0", "x", "1.5", "99999999999", "-2"])
def test_invalid_versions_are_refused(ask: Client, version: str) -> None:
    ask.good("POST", "/subjects/s/versions", {"schema": INT})
    assert ask.code("GET", f"/subjects/s/versions/{version}") == 42202


@pytest.mark.parametrize(
    "body",
    [
        {"schema": "no schema"},
        {"schema": ""},
        {"schema": 5},
        {},
        {"schema": INT, "schemaType": "XML"},
        {"schema": INT, "schemaType": ["AVRO"]},
        {"schema": INT, "references": [{"name": "x", "subject": "y", "version": 1}]},
        {"schema": "message {", "schemaType": "PROTOBUF"},
        {"schema": "[]", "schemaType": "JSON"},
    ],
    ids=str,
)
def test_invalid_schemas_are_refused(ask: Client, body: Any) -> None:
    for path in ("/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions/latest"):
        assert ask.code("POST", path, body) == 42201
    assert ask.good("GET", "/subjects") == []


def test_invalid_requests_are_refused(ask: Client) -> None:
    path = "/subjects/s/versions"
    assert ask.code("POST", path, b"{") == 400
    assert ask.code("POST", path, b"[]") == 400
    assert ask.code("POST", path, b"[" * 100_000) == 400
    assert ask.code("POST", path, {"schema": INT}, **{"Content-Type": "application/x-www-form-urlencoded"}) == 415
    assert ask.code("POST", path, {"schema": "x" * MAX_BODY_BYTES}) == 413
    assert ask.code("POST", path, {"schema": "x" * (MAX_BODY_BYTES - 1000)}) == 42201
    status, _ = ask("GET", "/subjects", Host="evil.example")
    assert status == 400
    assert ask.good("GET", "/subjects") == []


def test_compatibility_is_checked(ask: Client) -> None:
    ask.good("POST", "/subjects/s/versions", {"schema": record("a")})
    wider = {"schema": record("a", "b")}
    assert ask.code("POST", "/subjects/s/versions", wider) == 409
    check = "/compatibility/subjects/s/versions"
    assert ask.good("POST", f"{check}/latest", wider) == {"is_compatible": False}
    told = ask.good("POST", f"{check}/1?verbose=true", wider)
    assert "b: the new field has no default" in told["messages"][0]
    assert ask.good("POST", check, {"schema": record("a", "b", default=True)}) == {"is_compatible": True}
    assert ask.code("POST", f"{check}/7", wider) == 40402
    assert ask.code("POST", "/compatibility/subjects/none/versions/latest", wider) == 40401
    assert ask.good("PUT", "/config/s", {"compatibility": "FORWARD"}) == {"compatibility": "FORWARD"}
    assert ask.good("POST", f"{check}/latest", wider) == {"is_compatible": True}
    assert ask.good("POST", "/subjects/s/versions", wider) == {"id": 2}


def test_compatibility_levels_are_set(ask: Client) -> None:
    assert ask.good("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert ask.code("PUT", "/config", {"compatibility": "SIDEWARD"}) == 42203
    assert ask.code("PUT", "/config", {"compatibility": "NONE", "normalize": True}) == 42203
    assert ask.good("PUT", "/config", {"compatibility": "none"}) == {"compatibility": "NONE"}
    assert ask.good("GET", "/config/s?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    ask.good("PUT", "/config/s", {"compatibility": "FULL"})
    assert ask.good("GET", "/config/s") == {"compatibilityLevel": "FULL"}
    assert ask.good("DELETE", "/config/s") == {"compatibilityLevel": "FULL"}
    assert ask.code("DELETE", "/config/s") == 40408
    assert ask.good("DELETE", "/config") == {"compatibilityLevel": "NONE"}
    assert ask.good("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert ask.good("GET", "/mode") == {"mode": "READWRITE"}
    assert ask.code("PUT", "/mode", {"mode": "IMPORT"}) == 42204
    ask.good("POST", "/subjects/s/versions", {"schema": INT})
    assert ask.good("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert ask.code("POST", "/subjects/s/versions", {"schema": '"long"'}) == 42205
    assert ask.code("DELETE", "/subjects/s") == 42205
    assert ask.good("POST", "/subjects/s/versions", {"schema": INT}) == {"id": 1}  # it is there: nothing to write
    assert ask.good("POST", "/subjects/t/versions", {"schema": '"long"'}) == {"id": 2}


def test_subjects_and_versions_are_deleted(ask: Client) -> None:
    ask.good("PUT", "/config", {"compatibility": "NONE"})
    for schema in (INT, TEXT):
        ask.good("POST", "/subjects/s/versions", {"schema": schema})
    assert ask.code("DELETE", "/subjects/s/versions/1?permanent=true") == 40407
    assert ask.good("DELETE", "/subjects/s/versions/1") == 1
    assert ask.code("DELETE", "/subjects/s/versions/1") == 40406
    assert ask.good("GET", "/subjects/s/versions") == [2]
    assert ask.good("GET", "/subjects/s/versions?deleted=true") == [1, 2]
    assert ask.good("GET", "/schemas/ids/1") == {"schema": INT}  # payloads that carry it can still be read
    assert ask.code("GET", "/subjects/s/versions/1") == 40402
    assert ask.good("GET", "/subjects/s/versions/1?deleted=true")["id"] == 1
    assert ask.code("DELETE", "/subjects/s?permanent=true") == 40405
    assert ask.good("DELETE", "/subjects/s") == [2]
    assert ask.code("DELETE", "/subjects/s") == 40404
    assert ask.good("GET", "/subjects") == []
    assert ask.good("GET", "/subjects?deletedOnly=true") == ["s"]
    assert ask.good("POST", "/subjects/s/versions", {"schema": INT}) == {"id": 1}  # the same schema, the same id
    assert ask.good("GET", "/subjects/s/versions") == [3]
    ask.good("DELETE", "/subjects/s")
    assert ask.good("DELETE", "/subjects/s?permanent=true") == [1, 2, 3]
    assert ask.code("GET", "/schemas/ids/1") == 40403
    assert ask.code("GET", "/subjects/s/versions") == 40401
    assert ask.good("POST", "/subjects/s/versions", {"schema": INT}) == {"id": 3}  # no id is ever given twice
    assert ask.good("GET", "/subjects/s/versions") == [4]


def test_concurrent_registrations_get_distinct_ids(ask: Client) -> None:
    def register(i: int) -> int:
        schema = json.dumps({"type": "fixed", "name": "f", "size": i % 20 + 1})
        return ask.good("POST", f"/subjects/s{i}/versions", {"schema": schema})["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(register, range(60)))
    assert ids[:20] == ids[20:40] == ids[40:]
    assert sorted(ids[:20]) == list(range(1, 21))


def test_the_registry_is_served_over_http_2_in_clear_text(ask: Client) -> None:
    host, _, port = ask.address.removeprefix("http://").partition(":")
    talk = H2Connection()
    talk.initiate_connection()
    asked = {":method": "GET", ":path": "/subjects", ":scheme": "http", ":authority": f"{host}:{port}"}
    talk.send_headers(1, list(asked.items()), end_stream=True)
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(talk.data_to_send())
        events: list[Any] = []
        while not any(isinstance(event, StreamEnded) for event in events):
            events += talk.receive_data(line.recv(1 << 16))
    assert b"".join(event.data for event in events if isinstance(event, DataReceived)) == b"[]"


def test_a_port_in_use_is_an_error(ask: Client) -> None:
    port = int(ask.address.rpartition(":")[2])
    with pytest.raises(PortInUse):
        Server(registry_app(MemoryRegistry()), port=port)


# -- serdes and their client ----------------------------------------------------------------------------------------


def serde(columns: str, address: str, format_name: str = "AVRO") -> Any:
    maker = find_format(format_name, {"registry": address, "topic": "t"})
    return maker.serde(Schema.parse(columns).fields, is_key=False, wrapped=True)


def header(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")


def test_avro_is_compatible_with_other_clients(ask: Client) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
    }
    schema_id = ask.good("POST", "/subjects/t-value/versions", {"schema": json.dumps(schema)})["id"]
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), {"id": 7, "item": "pen"})
    assert serde("ID bigint, ITEM string", ask.address).decode(header(schema_id) + body.getvalue()) == (7, "pen")
    ask.good("PUT", "/config/t-value", {"compatibility": "NONE"})
    written = serde("ID bigint, ITEM string", ask.address).encode((8, "ink"))
    theirs = json.loads(ask.good("GET", f"/schemas/ids/{int.from_bytes(written[1:5], 'big')}")["schema"])
    assert fastavro.schemaless_reader(io.BytesIO(written[5:]), theirs, None) == {"ID": 8, "ITEM": "ink"}


def test_protobuf_is_compatible_with_other_clients(ask: Client) -> None:
    text = 'syntax = "proto3"; message Wrapped { string value = 1; }'
    body = {"schema": text, "schemaType": "PROTOBUF"}
    schema_id = ask.good("POST", "/subjects/t-value/versions", body)["id"]
    payload = header(schema_id) + b"\x00" + StringValue(value="pen").SerializeToString()
    assert serde("VALUE string", ask.address, "PROTOBUF").decode(payload) == ("pen",)
    ask.good("PUT", "/config/t-value", {"compatibility": "NONE"})
    written = serde("VALUE string", ask.address, "PROTOBUF").encode(("ink",))
    assert StringValue.FromString(written[6:]).value == "ink"
    assert ask.good("GET", f"/schemas/ids/{int.from_bytes(written[1:5], 'big')}")["schemaType"] == "PROTOBUF"


def test_json_schema_is_compatible_with_other_clients(ask: Client) -> None:
    written = serde("A int", ask.address, "JSON_SR").encode((1,))
    assert serde("A int", ask.address, "JSON_SR").decode(written) == (1,)


def test_the_client_gets_versions_and_errors_of_the_registry(ask: Client) -> None:
    registry = HttpRegistry(ask.address)
    with pytest.raises(UnknownSubject):
        registry.latest("odd name/%-value")
    with pytest.raises(UnknownSchema):
        registry.schema(99)
    assert registry.register("s", record("a"), "AVRO") == 1
    assert registry.register("odd name/%2F?-value", record("a"), "AVRO") == 1
    assert registry.latest("odd name/%2F?-value").number == 1
    assert registry.subjects() == ["odd name/%2F?-value", "s"]
    assert registry.latest("s") == registry.versions("s")[0] == Version("s", 1, 1, record("a"), "AVRO")
    with pytest.raises(IncompatibleSchema, match="the new field has no default"):
        registry.register("s", record("a", "b"), "AVRO")
    with pytest.raises(BadRecord, match="schema is unknown"):
        serde("A string", ask.address).decode(header(99) + b"\x00")
    with pytest.raises(BadFormatOption, match="registry"):
        serde("A string", "127.0.0.1:8081")


def test_the_client_caches_schemas(folder: Path) -> None:
    with Server(registry_app(MemoryRegistry(strict=True))).running() as server:
        registry = HttpRegistry(server.address)
        schema_id = registry.register("s", INT, "AVRO")
        assert registry.schema(schema_id) == (INT, "AVRO")
    # The server is gone; what never changes is still known, and for the rest one may try again.
    assert registry.register("s", INT, "AVRO") == schema_id
    assert registry.schema(schema_id) == (INT, "AVRO")
    with pytest.raises(RegistryUnreachable):
        registry.schema(schema_id + 1)
    with pytest.raises(RegistryUnreachable):
        serde("A string", server.address).decode(header(1) + b"\x00")


# -- what lasts -----------------------------------------------------------------------------------------------------


def test_schemas_survive_a_restart_and_compaction(folder: Path) -> None:
    with EmbeddedLog(folder) as log:
        registry = LogRegistry(log)
        registry.set_level("NONE", "s")
        for schema in (INT, TEXT, INT):
            registry.register("s", schema, "AVRO")
        registry.register("gone", '"bytes"', "AVRO")
        registry.delete_subject("gone")
        registry.delete_subject("gone", permanent=True)
        registry.delete_version("s", 1)
        before = [registry.versions("s", deleted=True), registry.level("s"), registry.subjects(deleted=True)]
        assert [topic.name for topic in log.topics()] == []
        log.maintenance.run(force_compaction=True, topics=[SCHEMAS_TOPIC])
    with EmbeddedLog(folder) as log:
        registry = LogRegistry(log)
        assert [registry.versions("s", deleted=True), registry.level("s"), registry.subjects(deleted=True)] == before
        assert registry.register("new", '"bytes"', "AVRO") == 4


def test_reading_creates_no_topic(folder: Path) -> None:
    with EmbeddedLog(folder) as log:
        assert LogRegistry(log).subjects() == []
        with pytest.raises(Exception, match=SCHEMAS_TOPIC):
            log.topic(SCHEMAS_TOPIC)


WORKER = """
import sys
from headrace.log.embedded import EmbeddedLog
from headrace.log.schema_registry import LogRegistry
folder, name, count = sys.argv[1:]
with EmbeddedLog(folder) as log:
    registry = LogRegistry(log)
    for i in range(int(count)):
        schema = '{"type": "fixed", "name": "%s", "size": %d}' % (name, i + 1)
        print(schema, registry.register(f"{name}-{i}", schema, "AVRO"), sep="\\t", flush=True)
"""


def worker(folder: Path, name: str, count: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), name, str(count)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def acknowledged(output: str) -> dict[str, int]:
    """Schemas by the id they were said to have; a line that was cut off by a kill does not count."""
    lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return {schema: int(schema_id) for schema, schema_id in (line.strip().split("\t") for line in lines)}


@pytest.mark.faults
@pytest.mark.parametrize(("point", "kept"), [("schemas.decided", 2), ("schemas.appended", 3)])
def test_a_kill_during_a_change_leaves_a_consistent_registry(
    folder: Path, tmp_path: Path, point: str, kept: int
) -> None:
    mark = tmp_path / "mark"
    dead = worker(folder, "n", 10, **{VARIABLE: f"{point}:3:{mark}"})
    output, _ = dead.communicate(timeout=60)
    assert (dead.returncode, mark.read_text()) == (-signal.SIGKILL, point)
    assert list(acknowledged(output).values()) == [1, 2]
    with EmbeddedLog(folder) as log:
        assert len(LogRegistry(log).subjects()) == kept
    again = worker(folder, "n", 4)  # who had no answer asks again
    output, _ = again.communicate(timeout=60)
    assert list(acknowledged(output).values()) == [1, 2, 3, 4]


@pytest.mark.faults
def test_two_registries_killed_at_random_stay_consistent(folder: Path) -> None:
    told: dict[str, int] = {}
    for turn in range(3):
        count = 40 if turn == 2 else 1_000_000  # which nobody lives to reach
        workers = [worker(folder, f"{name}{turn}", count) for name in "ab"]
        for one in workers:
            assert one.stdout is not None
            first = [one.stdout.readline() for _ in range(5 + 7 * turn)]
            if turn < 2:
                one.send_signal(signal.SIGKILL)
            rest = one.stdout.read()  # not `communicate`, which passes over what `readline` has read ahead
            assert one.wait(60) == (0 if turn == 2 else -signal.SIGKILL)
            told |= acknowledged("".join(first) + rest)
    assert len(set(told.values())) == len(told) >= 80 + 2 * (5 + 12)
    with EmbeddedLog(folder) as log:
        registry = LogRegistry(log)
        assert {schema: registry.schema(schema_id)[0] for schema, schema_id in told.items()} == {s: s for s in told}
        kept = [version.id for subject in registry.subjects() for version in registry.versions(subject)]
        assert len(set(kept)) == len(kept)


# -- the command ------------------------------------------------------------------------------------------------------


def headrace(folder: Path, *words: str, given: str = "") -> tuple[int, str, str]:
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "--data", str(folder), "schema", *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_command_and_a_server_use_the_same_schemas(folder: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.avsc", tmp_path / "bad.avsc"
    good.write_text(record("a"))
    bad.write_text(record("a", "b"))
    assert headrace(folder, "register", "s", str(good))[:2] == (0, "1\n")
    assert headrace(folder, "register", "j", "-", "--kind", "json", given="{}")[:2] == (0, "2\n")
    assert headrace(folder, "register", "k", "-", given="{}")[0] == 2
    assert headrace(folder, "check", "s", str(good))[0] == 0
    code, _, said = headrace(folder, "check", "s", str(bad))
    assert (code, said.splitlines()[0].startswith("incompatible-schema")) == (1, True), said
    assert headrace(folder, "register", "s", str(tmp_path / "none.avsc"))[0] == 1
    assert headrace(folder, "show", "s")[1] == record("a") + "\n"
    listed = json.loads(headrace(folder, "list", "--json")[1])
    assert [(row["subject"], row["kind"], row["id"]) for row in listed] == [("j", "JSON", 2), ("s", "AVRO", 1)]
    with served(folder) as address:
        registry = HttpRegistry(address)
        assert registry.subjects() == ["j", "s"]
        assert registry.register("t", TEXT, "AVRO") == 3
        assert headrace(folder, "register", "u", "-", "--kind", "AVRO", given=INT)[1] == "4\n"
        assert registry.register("v", '"long"', "AVRO") == 5
    assert headrace(folder, "show", "v", "--version", "1")[1] == '"long"\n'


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "--data", str(folder), "schema", "up"]
    process = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield next(word.rstrip(";") for word in process.stderr.readline().split() if word.startswith("http://"))
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


# -- on Kafka --------------------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_two_registries_share_kafka(log: Log, kafka_settings: Any, name: str) -> None:
    from headrace.log.kafka import KafkaLog

    with KafkaLog(kafka_settings) as other:
        one, two = (LogRegistry(each, f"__{name}") for each in (log, other))
        assert one.register("s", record("a"), "AVRO") == 1
        assert two.register("t", INT, "AVRO") == 2
        assert one.register("u", TEXT, "AVRO") == 3
        assert two.register("s", record("a"), "AVRO") == 1
        with pytest.raises(IncompatibleSchema):
            two.register("s", record("a", "b"), "AVRO")
        assert one.delete_subject("t") == [1]
        assert one.delete_subject("t", permanent=True) == [1]
        assert two.register("t", INT, "AVRO") == 4
        assert one.subjects() == two.subjects() == ["s", "t", "u"]
    assert LogRegistry(log, f"__{name}").versions("t") == [Version("t", 2, 4, INT, "AVRO")]
