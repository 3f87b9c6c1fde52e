"""Run a file of REST cases against the real server: `python -m tests.conformance.rest --corpus PATH [--only TEXT]`.

Each case has the server to itself: its statements go to `/ksql` and `/query` over HTTP, its records into the log, and
when its queries have read all of them the questions are asked. What came back goes to `--actual`, and the comparer
decides what passed. Ends with 0 if every failure is in the ledger of known gaps, and every known gap failed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.progress import track

from headrace.contracts import Append, TopicSpec
from headrace.control.node import Node
from headrace.engine.query import ensure_topic
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings, Size
from headrace.testing.case_records import case_document
from headrace.testing.json_payloads import json_text, read_json
from headrace.testing.memory_log import INPUT_ORIGIN, MemoryRecord
from tests.conformance import corpus_functions, verdicts
from tests.conformance.ksql import is_chosen, write
from tests.conformance.modes import memory
from tests.conformance.modes.memory import Case, Outcome

ACTUAL = Path("build/conformance/rest.jsonl")
LONGEST = 120.0
"""Seconds after which a case is given up."""
PROPERTIES = {"auto.offset.reset": "earliest", "cache.max.bytes.buffering": 0}
"""As in the runner of the cases: everything from the beginning, every change told."""


class ServerUnderTest:
    """A server with nothing in it, for one case after another."""

    def __init__(self, log: EmbeddedLog, node: Node, port: int) -> None:
        self.log, self.node, self._port = log, node, port

    def post(self, path: str, body: dict[str, Any], on_begin: Callable[[], None] | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LONGEST)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            if on_begin is not None:
                on_begin()
            return {"status": response.status, "body": json.loads(response.read(), parse_float=Decimal)}
        finally:
            connection.close()

    def produce(self, entries: Sequence[MemoryRecord]) -> None:
        for entry in entries:
            record = Record(entry.value, entry.key, entry.headers, occurred_at=entry.timestamp)  # type: ignore[arg-type]
            self.log.append([Append(entry.topic, from_records([record]))])

    def settle(self) -> None:
        """Until all queries have read all there is, and all tables have it."""
        end = time.monotonic() + LONGEST
        while not self._is_idle():
            if time.monotonic() > end:
                raise TimeoutError(f"the queries are not done: {self.node.reconciler.failures}")
            time.sleep(0.05)
        for name in self.node.tables.names:
            topic = self.node.catalog.sources[name].topic
            ends = {partition: bounds.end for partition, bounds in self.log.bounds(topic).items()}
            self.node.tables.wait_for(name, ends, timedelta(seconds=LONGEST))

    def _is_idle(self) -> bool:
        supervisor = self.node.supervisor
        if supervisor.running.keys() < supervisor.queries.keys():
            return False
        return not any(one.is_starting for one in supervisor.running.values()) and supervisor.is_idle()

    def clear(self) -> None:
        """As if the case had never been."""
        self.node.execute("TERMINATE ALL;")
        names = list(self.node.catalog.sources.values())
        for source in reversed(names):
            self.node.execute(f"DROP {source.kind.upper()} IF EXISTS `{source.name}`;")
        for name in list(self.node.catalog.types):
            self.node.execute(f"DROP TYPE `{name}`;")
        for topic in self.log.topics():
            if not topic.name.startswith("__"):
                self.log.delete_topic(topic.name)
        self.node.catalog.partitions.clear()


@contextmanager
def server_under_test() -> Iterator[ServerUnderTest]:
    with tempfile.TemporaryDirectory(prefix="headrace-rest-") as folder:
        settings = Settings.of(
            storage_data=Path(folder),
            spark_driver_memory=Size(1 << 30),
            storage_maintenance_interval=timedelta(0),
            query_suspend_after=timedelta(0),
        )
        with (
            EmbeddedLog(settings.storage.data, settings) as log,
            Node(log, settings, setup=corpus_functions.install) as node,
            Server(application(node)).running() as server,
        ):
            yield ServerUnderTest(log, node, server.port)


# -- a case ---------------------------------------------------------------------------------------------------------


def run(world: ServerUnderTest, case: Case) -> Outcome:
    """All statements up to the first that is refused; the records before the first question, or when it is heard."""
    outcome: Outcome = {"id": case["id"], "responses": [], "topics": {}}
    try:
        entries = _prepare(world, case)
        given = False
        for text in case["statements"]:
            if is_question := bool(re.match(r"\s*SELECT\b", text, re.IGNORECASE)):
                late = not given and _is_late(case)
                if not given and not late:
                    world.produce(entries)
                world.settle()
                response = _asked(world, case, text, entries if late else ())
                given = True
            else:
                response = world.post("/ksql", {"ksql": text, "streamsProperties": _properties(case)})
            if not is_question and response["status"] == 200:
                response["body"] = response["body"][0] if response["body"] else None
            outcome["responses"].append(response)
            if response["status"] != 200:
                break
        outcome["topics"] = _topics(world, case)
    except Exception as error:
        outcome["responses"].append({"status": 599, "body": {"message": repr(error), "code": "internal"}})
    finally:
        world.clear()
    return outcome


def _properties(case: Case) -> dict[str, Any]:
    return PROPERTIES | dict(case.get("properties") or {})


def _is_late(case: Case) -> bool:
    return bool((case.get("inputConditions") or {}).get("waitForActivePushQuery"))


def _prepare(world: ServerUnderTest, case: Case) -> list[MemoryRecord]:
    """The topics that are there already, and the case's records as bytes."""
    for record in case.get("inputs", ()):
        world.node.catalog.partitions[record["topic"]] = memory.PARTITIONS
    for topic in case.get("topics") or ():
        world.node.catalog.partitions[topic["name"]] = topic.get("partitions", 1)
    for name, partitions in world.node.catalog.partitions.items():
        ensure_topic(world.log, name, TopicSpec(partitions=partitions))
    planned = _planned(case)
    memory.give(planned)
    return [entry for entry in planned.world.topics.entries if entry.origin == INPUT_ORIGIN]


def _planned(case: Case) -> memory.Planned:
    statements = [text for text in case["statements"] if not re.match(r"\s*SELECT\b", text, re.IGNORECASE)]
    return memory.plan({**case, "statements": statements})


def _asked(world: ServerUnderTest, case: Case, text: str, late: Sequence[MemoryRecord]) -> dict[str, Any]:
    """The records may have to come when the question is heard."""
    threads = [threading.Thread(target=world.produce, args=(late,))] if late else []
    body = {"ksql": text, "streamsProperties": _properties(case)}
    try:
        return world.post("/query", body, on_begin=lambda: _start(threads))
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _start(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()


def _topics(world: ServerUnderTest, case: Case) -> dict[str, list[dict[str, Any]]]:
    declared = _planned(case).world.declared
    wanted = {record["topic"] for record in case.get("outputs", ())}
    return {name: [case_document(entry, declared[name]) for entry in _entries(world, name)] for name in wanted}


def _entries(world: ServerUnderTest, topic: str) -> list[MemoryRecord]:
    found: list[tuple[int, MemoryRecord]] = []
    for partition, (start, end) in world.log.bounds(topic).items():
        while start < end:
            batch = world.log.read(topic, partition, start)
            for one in batch.records():
                found.append((one.sequence or 0, MemoryRecord(topic, one.key, one.value, one.timestamp, one.headers)))
            start = batch.next_offset
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.rest", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="cases, one JSON object per line")
    parser.add_argument("--only", default="", help="only cases whose id, file or name holds this text")
    parser.add_argument("--actual", type=Path, default=ACTUAL, help="where to write what came out")
    parser.add_argument("--sample", type=int, default=0, help="how many cases; 0 is all")
    parser.add_argument("--seed", type=int, default=0, help="which cases a sample has")
    options = parser.parse_args(arguments)
    corpus_functions.install()
    lines = [line for line in options.corpus.read_text(encoding="utf-8").splitlines() if line.strip()]
    chosen = [line for line in lines if is_chosen(read_json(line), options.only)]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    began = time.monotonic()
    with server_under_test() as server:
        outcomes = [json_text(run(server, read_json(line))) for line in track(chosen, "cases")]
    write(options.actual, outcomes)
    verdict = verdicts.compared(verdicts.comparer_of(options.corpus, "compare_rest.py"), chosen, options.actual)
    shown, as_known = verdicts.shown(verdict, verdicts.ledger("rest"), {read_json(line)["id"] for line in chosen})
    print("\n".join([*shown, f"{len(chosen)} cases in {time.monotonic() - began:.0f} s"]))
    return 0 if as_known else 1


if __name__ == "__main__":
    sys.exit(main())
