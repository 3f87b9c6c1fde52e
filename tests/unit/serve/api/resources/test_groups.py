"""Consumer groups over HTTP."""

from __future__ import annotations

from datetime import timedelta

from headrace.contracts import Append, Subscription
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from tests.unit.serve.api.conftest import Client


def test_a_group_is_shown_reset_and_deleted(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("raw")
    log.append([Append("raw", [Record(b"x")] * 10)])
    member = log.consumer("billing", Subscription(("raw",)), client="till")
    member.poll(timedelta(seconds=5), 4)
    member.commit()
    assert ask.done("GET", "/groups") == [{"name": "billing", "members": 1, "partitions": 1, "lag": 6}]
    told = ask.done("GET", "/groups/billing")
    (joined,) = told["members"]
    assert joined["client"] == "till"
    offset = {"topic": "raw", "partition": 0, "offset": 4, "lag": 6, "member": joined["id"]}
    assert told["offsets"] == [offset]
    status, refused = ask("POST", "/groups/billing/reset", {"to": "beginning"})
    assert (status, refused["code"]) == (409, "group-not-empty")
    member.close()
    assert ask.done("POST", "/groups/billing/reset", {"to": "beginning"})["lag"] == 10
    assert ask.done("POST", "/groups/billing/reset", {"to": "raw/0:7"})["lag"] == 3
    assert ask.done("POST", "/groups/new/reset", {"to": "end", "topics": ["raw"]})["lag"] == 0
    assert ask("DELETE", "/groups/billing") == (204, None)
    assert log.groups() == ["new"]


def test_invalid_group_requests_are_refused(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("raw")
    for method, path, body, status, code in (
        ("GET", "/groups/nobody", None, 404, "unknown-group"),
        ("DELETE", "/groups/nobody", None, 404, "unknown-group"),
        ("POST", "/groups/nobody/reset", {"to": "end"}, 404, "unknown-group"),
        ("POST", "/groups/a/reset", {"to": "end", "topics": ["nothing"]}, 404, "unknown-topic"),
        ("POST", "/groups/a/reset", {"to": "raw/0:7"}, 416, "offset-out-of-range"),
        ("POST", "/groups/a/reset", {"to": "raw/0:7", "topics": "raw"}, 400, "bad-request"),
        ("POST", "/groups/a/reset", {}, 400, "bad-request"),
    ):
        answered, told = ask(method, path, body)
        assert (answered, told["code"]) == (status, code), path
