"""`headrace status`, `logs` and `support-bundle`, with a server whose queries never start and without a server."""

from __future__ import annotations

import json
import logging
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import logfile
from headrace.cli.commands.logs import follow_log_lines, read_log_lines
from headrace.cli.params import server as server_param
from headrace.contracts import Append
from headrace.control.admin.discovery import SERVER_PROGRAM, advertise, get_server, local_token
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings, Size
from tests.unit.cli.conftest import Program
from tests.unit.control.test_node import CLICKS, COUNTS, Nowhere

SECRET = "hunter2"
VALUE = "Anna Smith"


@contextmanager
def served(data: Path, **changes: str) -> Iterator[Node]:
    settings = Settings.of(storage_data=data, **changes)
    with (
        EmbeddedLog(data) as log,
        Node(log, settings, isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
        advertise(data, server.address),
    ):
        yield node


def test_status_without_a_server_fails(headrace: Program) -> None:
    headrace("topic", "create", "a")
    assert headrace("status", code=1).err.endswith("fix: start one: headrace up\n")
    with EmbeddedLog(headrace.data):
        assert "another process uses the folder" in headrace("status", code=1).err
    assert headrace("down", code=1).err.startswith("server-not-running: ")


def test_commands_authenticate_with_the_secret_of_the_data_folder(headrace: Program, tmp_path: Path) -> None:
    with served(headrace.data, auth_mode="required"):
        address = get_server(headrace.data).required_address
        assert headrace("status", "--json").json["log"] == "embedded"
        listing = "sql", "--server", address, "--execute", "LIST STREAMS;"
        headrace(*listing)
        assert "not-authenticated" in Program(tmp_path / "other")(*listing, code=1).err
        assert local_token(tmp_path / "other", address) is None
        assert local_token(headrace.data, "http://192.0.2.1:8088") is None


def test_status_shows_the_queries_of_the_server(headrace: Program) -> None:
    with served(headrace.data) as node:
        told = headrace("status", "--json").json
        assert (told["queries"], told["broken"], told["log"]) == ([], {}, "embedded")
        node.execute(CLICKS + COUNTS + "CREATE STREAM copy AS SELECT * FROM clicks; PAUSE CSAS_COPY_2;")
        node.reconciler.reconcile()
        told = headrace("status", "--json", code=1).json
        states = {query["name"]: query["state"] for query in told["queries"]}
        assert states == {"CTAS_COUNTS_1": "failed", "CSAS_COPY_2": "paused"}
        assert [(view["name"], view["lag"], view["failure"]) for view in told["views"]] == [("COUNTS", 0, None)]
        failed = told["queries"][0]
        assert (failed["failure"]["code"], failed["sources"], failed["sink"]) == ("log-busy", ["CLICKS"], "COUNTS")
        shown = headrace("status", code=1)
        assert "CTAS_COUNTS_1" in shown.out
        assert "log-busy" in shown.err


def test_the_shell_finds_the_server_of_the_data_folder(headrace: Program) -> None:
    with served(headrace.data) as node:
        node.execute(CLICKS)
        assert headrace("sql", "--execute", "LIST TOPICS;", "--output", "csv").out.splitlines()[1:] == ["clicks,1,1"]
        headrace("sql", "--server", "http://127.0.0.1:1", "--execute", "LIST TOPICS;", code=75)
        (headrace.data / "checkpoints" / SERVER_PROGRAM / "server.json").unlink()
        assert "is starting or stopping" in headrace("sql", "--execute", "LIST TOPICS;", code=75).err


def test_without_a_server_the_shell_tries_the_default_address(
    headrace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_param, "DEFAULT_ADDRESS", "http://127.0.0.1:1")
    assert "no server responds at http://127.0.0.1:1" in headrace("sql", "--execute", "LIST TOPICS;", code=75).err
    assert not headrace.data.exists()


def test_a_support_bundle_contains_no_secrets_and_no_records(
    headrace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_CLIENT_OPTIONS", f"sasl.username=me,sasl.password={SECRET}")
    with served(headrace.data) as node:
        node.execute(CLICKS + COUNTS, {"ksql.sasl.password": SECRET})
        node.execute(f"CREATE STREAM odd AS SELECT *, 'password={SECRET}' AS p FROM clicks;")
        node.log.append([Append("clicks", from_records([Record(json.dumps({"PAGE": VALUE}).encode(), b"1")]))])
        logfile.configure(Settings.of(storage_data=headrace.data))
        logging.getLogger("headrace.a").warning("query CTAS_COUNTS_1 has failed: '%s' is no number", VALUE)
        logging.getLogger("headrace.a").warning("connected with %s to topic %r", SECRET, "clicks")
        try:
            raise ValueError(VALUE)
        except ValueError:
            logging.getLogger("headrace.a").exception("something went wrong")
        path = headrace.data / "bundle.zip"
        headrace("support-bundle", path)
    with zipfile.ZipFile(path) as bundle:
        parts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    for name, text in parts.items():
        assert SECRET not in text, name
        assert VALUE not in text, name
        assert "not gathered" not in text, (name, text)
    assert "CTAS_COUNTS_1" in parts["statements.json"] + parts["plans.txt"]
    assert "CREATE TABLE counts" in parts["statements.json"]
    assert "topic 'clicks'" in parts["headrace.log"]
    assert json.loads(parts["status.json"])["queries"]
    assert {one["name"]: one for one in json.loads(parts["settings.json"])}["kafka.client_options"][
        "value"
    ] == "********"


def test_a_support_bundle_needs_no_server_and_no_log(headrace: Program) -> None:
    headrace("topic", "create", "a")
    headrace("support-bundle", headrace.data / "one.zip")
    headrace("support-bundle", headrace.data / "one.zip", code=2)
    (headrace.data / "FORMAT").write_text("headrace 99\n")
    told = headrace("--json", "support-bundle", headrace.data / "two.zip").json
    with zipfile.ZipFile(headrace.data / "two.zip") as bundle:
        assert json.loads(bundle.read("topics.json"))["not gathered"]["code"] == "newer-format"
        assert json.loads(bundle.read("status.json"))["not gathered"]["code"] == "server-not-running"
    assert told["parts"]["machine.json"]


# -- logs -----------------------------------------------------------------------------------------------------------


def test_logs_are_filtered_over_rotated_files(headrace: Program) -> None:
    headrace("topic", "create", "a")
    logfile.configure(Settings.of(storage_data=headrace.data, logging_max_file_bytes=Size(1000)))
    logger = logging.getLogger("headrace.a")
    for n in range(30):
        logger.log(logging.WARNING if n % 10 == 0 else logging.INFO, "query CTAS_%s_1 did %s", "AB"[n % 2], n)
    assert len(list((headrace.data / "logs").glob("headrace.log.[0-9]"))) > 1
    assert [line["message"][-2:] for line in headrace("logs", "-n", 3, "--json").lines] == ["27", "28", "29"]
    said = headrace("logs", "--query", "ctas_b_1", "--json", "-n", 100).lines
    assert [line["message"] for line in said] == [f"query CTAS_B_1 did {n}" for n in range(1, 30, 2)]
    assert headrace("logs", "--level", "warning").out.count("\n") == 3
    assert headrace("logs", "--level", "loud", code=2).err


def test_following_logs_continues_after_rotation(tmp_path: Path) -> None:
    path = tmp_path / "headrace.log"
    path.write_text('{"message": "before"}\n')
    following = follow_log_lines(path)
    with path.open("a") as file:
        file.write('{"message": "half')
        file.flush()
        other = tmp_path / "other"
        other.write_text('{"message": "new"}\n')
    assert [line["message"] for line in read_log_lines(path)] == ["before", '{"message": "half']
    path.replace(tmp_path / "headrace.log.1")
    other.replace(path)
    assert next(following) == {"message": "new"}
