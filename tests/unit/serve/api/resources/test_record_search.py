"""Searching a topic gives the matches of a plain loop, page by page, the newest first."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace.contracts import Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.schema import Schema
from headrace.serve.api.resources import record_search
from tests.unit.serve.api.conftest import Client


def pages(ask: Client, topic: str, **asked: Any) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    while True:
        page = ask.done("GET", f"/topics/{topic}/search?{urlencode(asked)}")
        found.append(page["records"])
        if page["done"]:
            return found
        asked["before"] = page["next"]


@pytest.fixture
def numbers(log: EmbeddedLog) -> list[dict[str, Any]]:
    """Records of which every seventh is a Hit, over three partitions, oldest first."""
    log.create_topic("numbers", TopicSpec(partitions=3, partitioner="round-robin"))
    values = [{"n": n, "word": "Hit" if n % 7 == 0 else "miss"} for n in range(500)]
    for one in values:
        record = Record(json.dumps(one).encode(), b"k%d" % one["n"])
        log.append([Append("numbers", [record], one["n"] % 3)])
    return values


@pytest.mark.parametrize(("limit", "at_once"), [(100, 5_000), (7, 20), (1, 1), (1_000, 3)])
def test_every_match_is_found_once(
    ask: Client, numbers: list[dict[str, Any]], limit: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_search, "SCAN_BATCH_RECORDS", at_once)
    monkeypatch.setattr(record_search, "MAX_SCANNED_RECORDS", 10 * at_once)
    found = [json.loads(one["value"])["n"] for page in pages(ask, "numbers", text="hIT", limit=limit) for one in page]
    assert all(len(page) <= limit for page in pages(ask, "numbers", text="hit", limit=limit))
    assert sorted(found) == [one["n"] for one in numbers if one["word"] == "Hit"]


def test_a_search_without_text_lists_all_records_newest_first(ask: Client, numbers: list[dict[str, Any]]) -> None:
    found = [one for page in pages(ask, "numbers", limit=30) for one in page]
    assert sorted(json.loads(one["value"])["n"] for one in found) == [one["n"] for one in numbers]
    times = sorted((one["$timestamp"] for one in found), reverse=True)
    (first, *_) = pages(ask, "numbers", limit=30)
    assert [one["$timestamp"] for one in first] == times[:30]


def test_keys_bytes_and_single_partitions_are_searched(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("raw", TopicSpec(partitions=2, partitioner="round-robin"))
    log.append([Append("raw", [Record(b"\xff\xfe needle", b"a"), Record(None, b"NEEDLE")], 0)])
    log.append([Append("raw", [Record(b"needle", None)], 1)])
    assert len(ask.done("GET", "/topics/raw/search?text=needle")["records"]) == 3
    assert len(ask.done("GET", "/topics/raw/search?text=needle&partition=1")["records"]) == 1


def test_columns_of_a_schema_are_searched(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("orders", TopicSpec(schema=Schema.parse("id bigint key, city string")))
    ask.done("POST", "/topics/orders/records", [{"id": 1, "city": "Rom"}, {"id": 2, "city": "Paris"}])
    assert [one["id"] for one in ask.done("GET", "/topics/orders/search?text=par")["records"]] == [2]


def test_an_invalid_time_is_refused(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("raw")
    status, told = ask("GET", "/topics/raw/search?from=soon")
    assert (status, told["error"]["code"] if "error" in told else told["code"]) == (400, "bad-position-token")
