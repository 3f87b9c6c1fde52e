"""`headrace queue` and `headrace group`."""

from __future__ import annotations

from headrace.contracts import Subscription
from headrace.log.embedded import EmbeddedLog
from tests.unit.cli.conftest import Program


def test_receipts_work_in_a_later_call(headrace: Program, lines) -> None:
    headrace("topic", "create", "jobs")
    headrace("produce", "jobs", lines("a", "b", "c"))
    taken = headrace("queue", "take", "jobs", "q", "--max", 3, "--visibility", "5m", "--json").json
    assert [m["value"] for m in taken] == ["a", "b", "c"]
    receipts = [m["receipt"] for m in taken]
    headrace("queue", "ack", "jobs", "q", receipts[0])
    headrace("queue", "reject", "jobs", "q", receipts[1])
    headrace("queue", "reject", "jobs", "q", receipts[2], "--dead")
    stats = headrace("queue", "stats", "jobs", "q", "--json").json
    assert (stats["ready"], stats["in_flight"], stats["done"], stats["dead"]) == (1, 0, 1, 1)
    assert headrace("consume", "jobs.dead").out == "c\n"
    (again,) = headrace("queue", "take", "jobs", "q", "--json").json
    assert (again["value"], again["deliveries"]) == ("b", 2)
    assert headrace("queue", "ack", "jobs", "q", receipts[0], code=1).err.startswith("unknown-receipt: ")


def test_messages_of_a_typed_topic_are_rows(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", "id bigint key, at timestamp")
    headrace("produce", "t", lines('{"id":1,"at":"2026-01-01T00:00:00Z"}'))
    (message,) = headrace("queue", "take", "t", "q", "--json").json
    assert message["value"] == {"id": 1, "at": "2026-01-01T00:00:00.000Z"}
    assert headrace("queue", "take", "t", "q").out == ""
    assert "2026-01-01" in headrace("queue", "take", "t", "other").out


def test_showing_a_queue_does_not_create_it(headrace: Program) -> None:
    headrace("topic", "create", "jobs")
    for _ in range(2):
        assert headrace("queue", "stats", "jobs", "q", code=1).err.startswith("unknown-queue: ")
    assert headrace("queue", "stats", "nothing", "q", code=1).err.startswith("unknown-topic: ")


def test_groups_are_listed_reset_and_deleted(headrace: Program, lines) -> None:
    headrace("topic", "create", "n", "--partitions", 2, "--partitioner", "round-robin")
    headrace("produce", "n", lines(*map(str, range(6))))
    headrace("consume", "n", "--group", "g")
    assert headrace("group", "list", "--json").json == [{"name": "g", "members": 0, "partitions": 2, "lag": 0}]
    headrace("group", "reset", "g", "--to", "earliest")
    assert headrace("group", "list", "--json").json[0]["lag"] == 6
    headrace("group", "reset", "g", "--to", 2, "--topic", "n")
    assert [o["offset"] for o in headrace("group", "describe", "g", "--json").json["offsets"]] == [2, 2]
    headrace("group", "reset", "g", "--to", "-1h")
    assert headrace("group", "list", "--json").json[0]["lag"] == 6
    headrace("group", "reset", "g", "--to", "latest")
    assert "lag" in headrace("group", "describe", "g").out
    headrace("group", "delete", "g")
    assert headrace("group", "list", "--json").json == []


def test_invalid_group_commands_are_refused(headrace: Program, lines) -> None:
    headrace("topic", "create", "n")
    headrace("produce", "n", lines("1"))
    assert headrace("group", "describe", "g", code=1).err.startswith("unknown-group: ")
    assert headrace("group", "reset", "g", "--to", "latest", code=1).err.startswith("unknown-group: ")
    headrace("group", "reset", "g", "--to", 1, "--topic", "n")
    assert headrace("group", "reset", "g", "--to", 5, code=1).err.startswith("offset-out-of-range: ")
    with EmbeddedLog(headrace.data) as log:
        consumer = log.consumer("g", Subscription(("n",)))
        assert headrace("group", "reset", "g", "--to", 0, code=1).err.startswith("group-not-empty: ")
        consumer.close()
