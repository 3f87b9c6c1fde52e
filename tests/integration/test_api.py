"""The API from outside: a server in its own process, curl, and kill -9."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from headrace.access.secret_files import find_local_secret
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka import KafkaLog
from headrace.record import Record
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.api.conftest import Client
from tests.unit.serve.api.websocket_client import Socket

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "api.md"
SERVER = """
import sys
from pathlib import Path
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
folder = Path(sys.argv[1])
with EmbeddedLog(folder) as log, Node(log, Settings.of(storage_data=folder)) as node:
    server = Server(application(node))
    print(server.port, flush=True)
    server.run()
"""


@dataclass
class Up:
    process: subprocess.Popen[str]
    port: int

    def curl(self, *words: str) -> str:
        command = ["curl", "-sS", "--max-time", "60", *words[:-1], f"http://127.0.0.1:{self.port}{words[-1]}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def up(folder: Path) -> Iterator[Up]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Up(process, int(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_every_command_of_the_guide_succeeds(tmp_path: Path) -> None:
    """But for the first, which is the server itself."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)[1:]
    commands = [one for block in blocks for one in re.split(r"\n(?=curl)", block)]
    assert len(commands) > 10
    told: list[str] = []
    with up(tmp_path / "headrace-data") as server:
        for command in commands:
            here = command.replace("127.0.0.1:8088", f"127.0.0.1:{server.port}").replace(
                "curl -s", "curl -sS --fail-with-body"
            )
            done = subprocess.run(here, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            told.append(done.stdout)
    assert json.loads(told[1])["records"] == 2
    assert [json.loads(text)["repeated"] for text in told[3:5]] == [False, True]
    assert "headrace_topic_end_offset" in told[-1]


def test_the_api_is_served_over_http_2_in_clear_text(tmp_path: Path) -> None:
    with up(tmp_path / "data") as server:
        path = "/api/v1/topics"
        server.curl("--http2-prior-knowledge", "-d", '{"name": "raw"}', path)
        rows = json.dumps([{"value": str(i)} for i in range(20_000)])
        (tmp_path / "rows.json").write_text(rows)
        told = server.curl("--http2-prior-knowledge", "-d", f"@{tmp_path / 'rows.json'}", f"{path}/raw/records")
        assert json.loads(told)["records"] == 20_000
        page = json.loads(server.curl("--http2-prior-knowledge", f"{path}/raw/records?limit=10000"))
        assert [row["value"] for row in page["records"]] == [str(i) for i in range(10_000)]


@pytest.mark.faults
def test_acknowledged_records_are_stored_once_across_kills(tmp_path: Path) -> None:
    """A producer that repeats each request until it has an answer, and a server that is killed with some under way."""
    folder, kills, sent = tmp_path / "data", 0, 0
    with EmbeddedLog(folder) as log:
        log.create_topic("raw")
    while sent < 20:
        with up(folder) as server:
            while sent < 20 and server.process.poll() is None:
                request = _request(server, sent)
                if sent % 5 == 2 and kills <= sent // 5:
                    server.process.send_signal(signal.SIGKILL)
                    kills += 1
                told, _ = request.communicate(timeout=60)
                sent += told.startswith('{"topic":"raw"')
    assert kills == 4
    with EmbeddedLog(folder) as log:
        assert [record.value for record in log.read("raw", 0, 0).records()] == [str(i).encode() for i in range(20)]


def _request(server: Up, number: int) -> subprocess.Popen[str]:
    named = ["-H", "Headrace-Producer: p", "-H", f"Headrace-Sequence: {number}", "-d", f'[{{"value": "{number}"}}]']
    command = ["curl", "-s", *named, f"http://127.0.0.1:{server.port}/api/v1/topics/raw/records"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_the_api_serves_kafka(log: KafkaLog, kafka_settings: Settings) -> None:
    """The same paths, on a broker: typed rows, numbered requests, pages, live reading, groups, dead letters."""
    with Node(log, kafka_settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        ask = Client(server.host, server.port, find_local_secret(kafka_settings.storage.data))
        name = f"orders-{time.time_ns()}"
        path = f"/topics/{name}"
        ask.done(
            "POST", "/topics", {"name": name, "options": {"partitions": 2, "schema": "id bigint key, city string"}}
        )
        rows = [{"id": i, "city": f"c{i}"} for i in range(50)]
        numbered = {"headrace_producer": name, "headrace_sequence": "0"}
        assert ask.done("POST", f"{path}/records", rows, **numbered)["records"] == 50
        assert ask.done("POST", f"{path}/records", rows, **numbered)["repeated"] is True
        page = ask.done("GET", f"{path}/records?limit=1000")
        assert sorted(row["id"] for row in page["records"]) == list(range(50))
        with Socket(ask.host, ask.port, f"/api/v1{path}/tail?from={quote(page['next'])}") as socket:
            assert socket.message()["records"] == []
            ask.done("POST", f"{path}/records", [{"id": 99}])
            assert [row["id"] for row in socket.message()["records"]] == [99]
        assert ask.done("POST", f"/groups/g-{name}/reset", {"to": "end", "topics": [name]})["lag"] == 0
        _replayed_on_kafka(ask, log, name)
        assert ask.done("GET", path)["partitions"][0]["rows"] is None
        assert ask("DELETE", path)[0] == 204


def _replayed_on_kafka(ask: Client, log: KafkaLog, name: str) -> None:
    place = next(one for one, bounds in log.bounds(name).items() if bounds.end)
    first = log.read(name, place, 0, max_records=1).rows.column("id")[0].as_py()
    where = f"topic {name}, partition {place}, offset 0"
    log.create_topic(f"{name}.dead")
    headers = (("code", b"late-record"), ("where", where.encode()))
    log.append([Append(f"{name}.dead", [Record(b"{", None, headers)])])
    went = ask.done("POST", f"/dead-letters/{name}.dead/0/0/replay")
    assert log.read(name, went["partition"], went["offset"], max_records=1).rows.column("id")[0].as_py() == first
    assert ask("POST", f"/dead-letters/{name}.dead/0/0/replay")[1]["code"] == "dead-letter-resolved"
