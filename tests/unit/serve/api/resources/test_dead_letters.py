"""Dead letters over HTTP: shown, replayed once, discarded."""

from __future__ import annotations

from headrace.contracts import Append
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.record import Headers, Record
from headrace.serve.api.log_io.dead_letter_status import TOPIC, DeadLetterId, DeadLetterResolutions
from tests.unit.control.test_node import CLICKS, COUNTS
from tests.unit.serve.api.conftest import Client

PATH = "/dead-letters/COUNTS.dead"


def why(where: str, code: str = "bad-record") -> Headers:
    texts = {"code": code, "reason": "it is no JSON", "where": where, "query": "CTAS_COUNTS_1"}
    return tuple((name, text.encode()) for name, text in texts.items())


def buried(node: Node, log: EmbeddedLog) -> None:
    """A record that cannot be read, its dead letter, and dead letters of no record."""
    node.execute(CLICKS + COUNTS)
    log.create_topic("COUNTS.dead")
    log.append([Append("clicks", [Record(b"{", b"1", (("trace", b"7"),), occurred_at=77)])])
    letters = [
        Record(b"{", b"1", why("topic clicks, partition 0, offset 0")),
        Record(b"(1,)", None, why("GROUP BY", "late-record")),
        Record(b"[", b"1", why("topic clicks, partition 0, offset 0")),
        Record(b"{", b"1", why("topic clicks, partition 0, offset 9")),
    ]
    log.append([Append("COUNTS.dead", letters)])


def test_dead_letters_are_listed_with_their_reasons(ask: Client, node: Node, log: EmbeddedLog) -> None:
    buried(node, log)
    box = {"topic": "COUNTS.dead", "belongs_to": "COUNTS", "dead_letters": 4, "queries": ["CTAS_COUNTS_1"]}
    assert ask.done("GET", "/dead-letters") == ask.done("GET", "/dead-letters?query=CTAS_COUNTS_1") == [box]
    page = ask.done("GET", f"{PATH}?code=late-record")
    (dead_letter,) = page["dead_letters"]
    assert (dead_letter["reason"], dead_letter["where"], dead_letter["state"]) == ("it is no JSON", "GROUP BY", "open")
    assert ask.done("GET", f"{PATH}/0/1") == dead_letter
    assert page["next"] == "COUNTS.dead/0:4"
    first = ask.done("GET", f"{PATH}?limit=3")
    assert len(first["dead_letters"]) == 3
    assert [one["offset"] for one in ask.done("GET", f"{PATH}?from={first['next']}")["dead_letters"]] == [3]
    assert ask.done("GET", f"{PATH}?query=other")["dead_letters"] == []


def test_a_dead_letter_is_replayed_once(ask: Client, node: Node, log: EmbeddedLog) -> None:
    buried(node, log)
    told = ask.done("POST", f"{PATH}/0/0/replay")
    assert told == {
        "dead_letter": "COUNTS.dead/0/0",
        "state": "replayed",
        "topic": "clicks",
        "partition": 0,
        "offset": 1,
    }
    first, second = log.read("clicks", 0, 0).records()
    assert (first.record, first.timestamp) == (second.record, second.timestamp)
    for method, path in (("POST", "/replay"), ("DELETE", "")):
        status, refused = ask(method, f"{PATH}/0/0{path}")
        assert (status, refused["code"]) == (409, "dead-letter-resolved")
    assert log.bounds("clicks")[0].end == 2
    assert ask.done("GET", f"{PATH}/0/0")["state"] == "replayed"
    assert [one["offset"] for one in ask.done("GET", PATH)["dead_letters"]] == [1, 2, 3]
    assert ask.done("DELETE", f"{PATH}/0/1")["state"] == "discarded"
    assert [one["offset"] for one in ask.done("GET", f"{PATH}?state=discarded")["dead_letters"]] == [1]
    assert len(ask.done("GET", f"{PATH}?state=all")["dead_letters"]) == 4


def test_another_server_reads_the_resolutions(ask: Client, node: Node, log: EmbeddedLog) -> None:
    buried(node, log)
    others = DeadLetterResolutions(log)
    ask.done("DELETE", f"{PATH}/0/2")
    created = log.topic("COUNTS.dead").created_at
    assert others.of([DeadLetterId("COUNTS.dead", created, 0, n) for n in (1, 2)]) == [None, "discarded"]
    others.settle(DeadLetterId("COUNTS.dead", created, 0, 1), "discarded")  # takes the writer over
    assert ask("DELETE", f"{PATH}/0/1")[1]["code"] == "dead-letter-resolved"
    assert ask.done("DELETE", f"{PATH}/0/3")["state"] == "discarded"
    assert log.bounds(TOPIC)[0].end == 3


def test_dead_letters_without_a_matching_source_record_cannot_be_replayed(
    ask: Client, node: Node, log: EmbeddedLog
) -> None:
    buried(node, log)
    for offset in (1, 2, 3):  # of no record; of another one than is there; of one that is gone
        status, told = ask("POST", f"{PATH}/0/{offset}/replay")
        assert (status, told["code"]) == (409, "not-replayable"), offset
    assert log.bounds("clicks")[0].end == 1
    for path, code in (
        ("/dead-letters/clicks", "unknown-topic"),
        ("/dead-letters/no.dead", "unknown-topic"),
        (f"{PATH}/0/4", "unknown-dead-letter"),
        (f"{PATH}/7/0", "unknown-dead-letter"),
        ("/dead-letters?query=nothing", "unknown-query"),
    ):
        status, told = ask("GET", path)
        assert (status, told["code"]) == (404, code), path


def test_a_recreated_topic_has_its_own_dead_letters(ask: Client, node: Node, log: EmbeddedLog) -> None:
    buried(node, log)
    ask.done("DELETE", f"{PATH}/0/0")
    log.delete_topic("COUNTS.dead")
    log.create_topic("COUNTS.dead")
    log.append([Append("COUNTS.dead", [Record(b"{", b"1", why("topic clicks, partition 0, offset 0"))])])
    assert ask.done("GET", f"{PATH}/0/0")["state"] == "open"
