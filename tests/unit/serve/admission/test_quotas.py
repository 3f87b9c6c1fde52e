from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.access.secret_files import find_local_secret
from headrace.control.admin.settings_reload import merge_live
from headrace.control.node import Node
from headrace.errors import TooManyRequests
from headrace.log.embedded import EmbeddedLog
from headrace.serve.admission.quotas import Quotas, TokenBucket, Usage
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from headrace.settings.sections import QuotaSettings
from tests.unit.control.test_node import CLICKS, Nowhere
from tests.unit.serve.api.conftest import Client


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_bucket_that_is_overdrawn_fills_up_at_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock)
    bucket.charge(50)  # 20 were saved
    assert bucket.wait_seconds() == 3.0
    clock.seconds = 2.0
    assert bucket.wait_seconds() == 1.0
    clock.seconds = 100.0
    bucket.charge(20)
    assert bucket.wait_seconds() == 0.0


def test_one_huge_request_does_not_lock_a_user_out_for_long() -> None:
    bucket = TokenBucket(1, Clock())
    bucket.charge(10**9)
    assert bucket.wait_seconds() == 30.0


def test_a_user_above_a_quota_is_told_when_to_come_back() -> None:
    clock = Clock()
    usage = Usage("shop", QuotaSettings(requests_per_second=1, rows_per_second=10), clock)
    usage.begin_request()
    usage.charge("quota.rows_per_second", 50)
    with pytest.raises(TooManyRequests, match=r"quota\.rows_per_second") as refused:
        usage.begin_request()
    assert refused.value.seconds == 3.0
    clock.seconds = 3.0
    usage.begin_request()


def test_the_number_of_remembered_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.serve.admission.quotas._MAX_KNOWN", 2)
    quotas = Quotas(lambda name: QuotaSettings(push_queries=1))
    with _usage(quotas, "alice").stream():
        for name in ("bob", "carol", "dave"):
            quotas.usage(name)
        with pytest.raises(TooManyRequests), _usage(quotas, "alice").stream():
            pass


def _usage(quotas: Quotas, name: str) -> Usage:
    usage = quotas.usage(name)
    assert usage is not None
    return usage


def test_another_quota_applies_to_the_next_request_and_what_is_open_still_counts() -> None:
    quota = {"alice": QuotaSettings(push_queries=2, requests_per_second=1)}
    quotas = Quotas(lambda name: quota.get(name, QuotaSettings()))
    assert quotas.usage("bob") is None
    with _usage(quotas, "alice").stream():
        _usage(quotas, "alice").charge("quota.requests_per_second", 100)
        quota["alice"] = QuotaSettings(push_queries=1)
        _usage(quotas, "alice").begin_request()
        with pytest.raises(TooManyRequests), _usage(quotas, "alice").stream():
            pass


@pytest.mark.parametrize("quota", ["rows_per_second", "bytes_in_per_second", "bytes_out_per_second"])
def test_a_quota_of_one_user_applies_at_once_and_to_nobody_else(tmp_path: Path, quota: str) -> None:
    with _serving(tmp_path) as (client, node):
        node.execute(CLICKS)
        operator = {"authorization": f"Bearer {find_local_secret(tmp_path / 'data')}"}

        def statuses(headers: dict[str, str]) -> set[int]:
            body = b'{"target": "CLICKS"}\n' + b'{"PAGE": "/"}\n' * 10
            return {client.raw("POST", "/inserts-stream", body, headers)[0] for _ in range(6)}

        assert statuses({}) == {200}
        node.guard.users.set_quota("anonymous", {quota: 1}, by="local")
        assert 429 in statuses({})
        assert statuses(operator) == {200}
        node.guard.users.set_quota("anonymous", {}, by="local")
        assert statuses({}) == {200}


def test_quotas_are_reloaded_with_the_settings(tmp_path: Path) -> None:
    with _serving(tmp_path) as (client, node):
        node.reload(merge_live(node.settings, node.settings.replace(quota_bytes_out_per_second=1)).settings)
        assert 429 in {client.raw("GET", "/api/v1/topics")[0] for _ in range(6)}


def test_the_pull_queries_of_one_user_have_a_quota_of_their_own(tmp_path: Path) -> None:
    with _serving(tmp_path, queries=3) as (_, node):
        context = RequestContext(node)
        quota_of = context.admission.queues[WorkClass.PULL].quota_of
        node.guard.users.set_quota("anonymous", {"queries": 1}, by="local")
        assert (quota_of("anonymous"), quota_of("shop")) == (1, 3)


@contextmanager
def _serving(folder: Path, **settings: int) -> Iterator[tuple[Client, Node]]:
    quotas = {f"quota_{name}": value for name, value in settings.items()}
    with (
        EmbeddedLog(folder / "data") as log,
        Node(log, Settings.of(storage_data=log.folder, **quotas), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
    ):
        yield Client(server.host, server.port), node


Request = Callable[[Client], Any]
REQUESTS: dict[str, tuple[str, Request]] = {
    "requests": ("requests_per_second", lambda client: client.raw("GET", "/api/v1/topics")),
    "bytes in": ("bytes_in_per_second", lambda client: client.raw("POST", "/ksql", b'{"ksql": "LIST STREAMS;"}')),
    "bytes out": ("bytes_out_per_second", lambda client: client.raw("GET", "/api/v1/openapi.json")),
    "rows": (
        "rows_per_second",
        lambda client: client.raw("POST", "/inserts-stream", b'{"target": "CLICKS"}\n' + b'{"PAGE": "/"}\n' * 10),
    ),
}


@pytest.mark.parametrize(("quota", "request_of"), REQUESTS.values(), ids=REQUESTS)
def test_the_quota_applies_to_the_next_request(tmp_path: Path, quota: str, request_of: Request) -> None:
    with _serving(tmp_path, **{quota: 1}) as (client, node):
        node.execute(CLICKS)
        answers = [request_of(client) for _ in range(8)]
        assert answers[0][0] == 200
        status, content, headers = answers[-1]
        assert (status, json.loads(content)["code"]) == (429, "too-many-requests")
        assert int({name.lower(): value for name, value in headers.items()}["retry-after"]) >= 1
        assert client.raw("GET", "/healthcheck")[0] == 200
        assert b"headrace_quota_refused_total 0.0" not in client.raw("GET", "/metrics")[1]


PUSHES = {
    "ksqlDB": ("POST", "/query-stream", b'{"sql": "SELECT * FROM clicks EMIT CHANGES;"}'),
    "watch": ("GET", "/api/v1/watch?sql=SELECT%20*%20FROM%20clicks%20EMIT%20CHANGES;", None),
    "tail": ("GET", "/api/v1/topics/clicks/tail", None),
}


@pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
def test_push_queries_and_tails_of_a_user_are_counted_until_they_end(
    tmp_path: Path, push: tuple[str, str, bytes | None]
) -> None:
    with _serving(tmp_path, push_queries=2) as (client, node), ExitStack() as opened:
        node.execute(CLICKS)
        for _ in range(2):
            connection = http.client.HTTPConnection(client.host, client.port, timeout=30)
            opened.callback(connection.close)
            connection.request(*push)
            assert connection.getresponse().status == 200
        status, content, headers = client.raw(*push)
        assert (status, json.loads(content)["code"]) == (429, "too-many-requests")
        assert "retry-after" in {name.lower() for name in headers}
