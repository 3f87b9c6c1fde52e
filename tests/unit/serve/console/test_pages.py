"""What pages show, without a browser: grids, rights, dashboards that two users change, push queries."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Grant
from headrace.access.principal import Principal
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.status import RUNNING, STARTING, SUSPENDED, QueryStatus
from headrace.errors import BadRequest, NotAllowed, TooManyReaders
from headrace.lang.registry import dialect_of
from headrace.log.embedded import EmbeddedLog
from headrace.record import Headers, Record
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources import dashboards
from headrace.serve.api.resources.queries import list_queries
from headrace.serve.console.pages.alerts import NoticesRequest
from headrace.serve.console.pages.topics import search_summary
from headrace.serve.console.poller import ServerSnapshot, SnapshotPoller
from headrace.serve.console.push_subscriptions import push_subscription
from headrace.serve.console.query_states import starting_queries, starting_text, state_summary
from headrace.serve.console.recent_dead_letters import RecentDeadLetters
from headrace.serve.console.record_rows import RecordRows
from headrace.serve.console.unexecuted import check_unexecuted, normalized
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.flow_layout import layout_flow
from headrace.serve.console.widgets.layout import SortedNumber, _with_texts, cell, cells
from headrace.serve.http.async_events import subscription_rows, thread_safe_setter
from headrace.settings import Settings
from tests.unit.control.test_node import CLICKS, COUNTS, Nowhere


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def site(log: EmbeddedLog) -> Iterator[RequestContext]:
    with Node(log, Settings.of(storage_data=log.folder), isolation=Nowhere()) as node:
        yield RequestContext(node).with_rights(ALL_RIGHTS)


# -- what a grid shows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, ""),
        (0, "1970-01-01 00:00:00.000"),
        (10**15, "1000000000000000 ms"),
        (-(10**17), "-100000000000000000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_every_time_is_formatted(ms: int | None, shown: str) -> None:
    assert number_format.format_time(ms) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (7, 7),
        (2**53, 2**53),
        (2**53 + 1, SortedNumber(float(2**53), "9007199254740993")),
        (10**37, SortedNumber(1e37, f"1{'0' * 37}")),
        (Decimal("1.50"), SortedNumber(1.5, "1.50")),
        (True, "true"),
        ({"a": 1}, '{"a": 1}'),
        (float("nan"), "nan"),
        (None, None),
    ],
)
def test_cells_hold_values_that_javascript_represents_exactly(value: object, shown: object) -> None:
    assert cell(value) == shown
    orjson.dumps(_with_texts({"n": cell(value)}))


def test_a_time_column_is_formatted_as_time() -> None:
    assert cells([1_500_000_000_123, 7], {0}) == {
        "c0": SortedNumber(1_500_000_000_123, "2017-07-14 02:40:00.123"),
        "c1": 7,
    }


def test_a_figure_sorts_by_its_number() -> None:
    assert _with_texts({"name": "a", "rate": SortedNumber(12_345.0, "12.3 k/s")}) == {
        "name": "a",
        "rate": 12_345.0,
        "rate$": "12.3 k/s",
    }


# -- who sees what --------------------------------------------------------------------------------------------------


def by(site: RequestContext, *grants: tuple[str, str, str]) -> RequestContext:
    return site.with_rights(Rights(Principal("ann"), [Grant.of(*one) for one in grants]))


@pytest.mark.parametrize(
    "grants",
    [
        (),
        (("read", "source", "COUNTS"),),
        (("read", "source", "*"),),
        (("control", "source", "COUNTS"),),
        (("control", "source", "BUSY"),),
    ],
)
def test_the_console_and_the_api_list_the_same_queries(
    site: RequestContext, grants: tuple[tuple[str, str, str], ...]
) -> None:
    site.node.execute(CLICKS + COUNTS + "CREATE ALERT busy ON counts WHEN n > 3;")
    who = by(site, *grants)
    moment = asyncio.run(SnapshotPoller(site).snapshot()).seen_by(who.rights)
    assert [one.name for one in moment.queries] == [one.name for one in list_queries(who)]


def test_internal_topics_are_not_drawn(site: RequestContext) -> None:
    site.node.execute(CLICKS + COUNTS + "CREATE ALERT busy ON counts WHEN n > 3;")
    drawn = layout_flow(asyncio.run(SnapshotPoller(site).snapshot()))
    assert not [box for box in drawn.boxes if box.id.name.startswith("__")]


def test_functions_and_columns_are_completed(site: RequestContext) -> None:
    site.node.execute(CLICKS)
    words = {word.label: word for word in dialect_of().completions(site.node.catalog)}
    assert {"CLICKS", "PAGE", "SUM", "LCASE", "SELECT", "EMIT"} <= set(words)
    assert (words["PAGE"].type, words["PAGE"].of) == ("property", ("CLICKS",))
    assert (words["SELECT"].starts_statement, words["EMIT"].starts_statement) == (True, False)


# -- the editor -----------------------------------------------------------------------------------------------------


def test_an_executed_statement_is_not_an_error(site: RequestContext) -> None:
    site.node.execute(CLICKS)
    text = f"{CLICKS}\nSELECT nothing FROM clicks EMIT CHANGES;"
    found = check_unexecuted(text, site.node.catalog, {normalized(CLICKS)})
    assert [error.code for error in found.errors] == ["column-not-found"]
    assert [error.code for error in check_unexecuted(CLICKS, site.node.catalog, ()).errors] == ["source-exists"]


def test_an_executed_statement_is_checked_again_once_its_effect_is_gone(site: RequestContext) -> None:
    text = f"{CLICKS} SELECT page FROM clicks EMIT CHANGES;"
    assert not check_unexecuted(text, site.node.catalog, {normalized(CLICKS)}).errors


# -- states of queries ----------------------------------------------------------------------------------------------


def query(name: str, sources: list[str], sink: str, state: str, **figures: int) -> QueryStatus:
    return QueryStatus(name, "", sink, sink, sources, state, **figures)  # pyright: ignore[reportArgumentType]


def test_query_states_are_summarized() -> None:
    queries = [query("A", [], "A", RUNNING, batches=1), *(query(f"P{n}", [], "P", SUSPENDED) for n in range(4))]
    assert state_summary(queries) == "1 running, 4 suspended"


def test_a_query_without_a_finished_batch_is_starting() -> None:
    first = query("FIRST", ["IN"], "MIDDLE", RUNNING, lag=1_200)
    second = query("SECOND", ["MIDDLE"], "OUT", RUNNING, lag=0)
    moment = ServerSnapshot(0.0, queries=[first, second, query("OTHER", ["IN"], "ELSEWHERE", STARTING)])
    assert starting_queries(moment, ["OUT"]) == [first]
    assert starting_text([first]) == "Query FIRST (lag: 1,200 records) is starting"
    assert starting_text([]) == ""


# -- records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "payload", "shown"),
    [
        ("TUMBLING (SIZE 1 MINUTE)", struct.pack(">q", 1_500_000_000_000), "2017-07-14 02:40:00 to 02:41:00"),
        (
            "SESSION (1 MINUTE)",
            struct.pack(">qq", 1_500_000_030_500, 1_500_000_000_000),
            "2017-07-14 02:40:00 to 02:40:30.500",
        ),
    ],
)
def test_a_windowed_key_is_shown_as_key_and_window(
    site: RequestContext, window: str, payload: bytes, shown: str
) -> None:
    rows = windowed(site, window)
    key = base64.b64encode(b'"/cart"' + payload).decode()
    row = rows.row({"$partition": 0, "$offset": 7, "$timestamp": 0, "key_base64": key, "value": None})
    assert rows.is_windowed
    assert (row["key"], row["window"], row["place"], row["value"]) == ("/cart", shown, "0/7", "deleted")


def windowed(site: RequestContext, window: str) -> RecordRows:
    site.node.execute(CLICKS)
    counts = f"SELECT page, COUNT(*) AS n FROM clicks WINDOW {window} GROUP BY page"
    site.node.execute(f"CREATE TABLE w WITH (key_format='JSON') AS {counts};")
    return RecordRows(site.node.catalog, "W")


def test_a_key_without_a_window_is_shown_unchanged(site: RequestContext) -> None:
    record = {"$partition": 0, "$offset": 0, "$timestamp": 0, "key": "odd", "value": "1"}
    row = windowed(site, "TUMBLING (SIZE 1 MINUTE)").row(record)
    assert (row["key"], "window" in row) == ("odd", False)


@pytest.mark.parametrize(
    ("found", "scanned", "text", "is_done", "told"),
    [
        (50, 100, "a", False, "50 matches in the newest 100 records"),
        (1, 1_200, "a", True, "1 match in all 1,200 records"),
        (50, 100, "", False, "The newest 50 records"),
        (3, 3, None, True, "3 records"),
    ],
)
def test_a_search_summary_says_how_much_was_scanned(
    found: int, scanned: int, text: str | None, is_done: bool, told: str
) -> None:
    assert search_summary(found, scanned, text, is_done=is_done) == told


def test_new_alerts_change_the_stamp_of_notices(site: RequestContext) -> None:
    before = NoticesRequest().stamp(site)
    assert before == NoticesRequest().stamp(site)
    site.node.execute(CLICKS + "CREATE ALERT busy ON clicks WHEN id > 3;")
    assert before != NoticesRequest().stamp(site)


# -- dashboards -----------------------------------------------------------------------------------------------------


def test_concurrent_changes_of_a_dashboard_are_all_applied(site: RequestContext) -> None:
    def add(number: int) -> None:
        dashboards.add_panel(site, dashboards.PanelRequest(dashboard="shop", panel={"title": str(number)}))

    def shown() -> list[str]:
        found = dashboards.get_dashboard(site, dashboards.DashboardRequest(dashboard="shop"))
        return sorted(one["title"] for one in found.panels)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown() == list("01234567")
    dashboards.remove_panel(site, dashboards.PanelRequest(dashboard="shop", panel={"title": "3"}))
    dashboards.remove_panel(site, dashboards.PanelRequest(dashboard="shop", panel={"title": "3"}))
    assert shown() == list("0124567")
    with pytest.raises(NotAllowed):
        dashboards.add_panel(by(site), dashboards.PanelRequest(dashboard="shop", panel={}))


def test_a_dashboard_from_before_sharing_is_shared(site: RequestContext, log: EmbeddedLog) -> None:
    site.dashboards.append([Record(b'{"title": "Old", "panels": [], "owner": "eve"}', b"old")])
    site.dashboards.append([Record(b'{"title": "Older", "panels": []}', b"older")])
    reader = by(site)
    assert [(one.name, one.owner, one.sharing) for one in dashboards.list_dashboards(reader)] == [
        ("old", "eve", "read"),
        ("older", "local", "read"),
    ]
    assert not dashboards.may_edit(reader, dashboards.list_dashboards(reader)[0])
    shared = dashboards.share_dashboard(site, dashboards.ShareRequest(dashboard="old", sharing="edit"))
    assert (shared.owner, dashboards.may_edit(reader, shared)) == ("eve", True)


def test_a_removed_chart_returns_to_its_place(site: RequestContext) -> None:
    for title in "abc":
        dashboards.add_panel(site, dashboards.PanelRequest(dashboard="Sales today", panel={"title": title}))
    again = dashboards.PanelRequest(dashboard="Sales today", panel={"title": "b"}, place=1)
    dashboards.remove_panel(site, again)
    assert [one["title"] for one in dashboards.add_panel(site, again).panels] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "-a", "a" * 101])
def test_an_invalid_dashboard_name_is_refused(site: RequestContext, name: str) -> None:
    with pytest.raises(BadRequest):
        dashboards.add_panel(site, dashboards.PanelRequest(dashboard=name, panel={}))


# -- dead letters ---------------------------------------------------------------------------------------------------


def test_the_newest_dead_letters_of_one_query_are_listed(site: RequestContext, log: EmbeddedLog) -> None:
    site.node.execute(CLICKS + COUNTS)
    log.create_topic("COUNTS.dead")

    def why(query: str) -> Headers:
        return tuple((name, text.encode()) for name, text in {"code": "bad-record", "query": query}.items())

    for number in range(700):
        query = "CTAS_COUNTS_1" if number % 2 else "another"
        log.append([Append("COUNTS.dead", [Record(str(number).encode(), None, why(query), occurred_at=number)])])
    found = RecentDeadLetters("CTAS_COUNTS_1", 3).answer(site)
    assert ([one.value for one in found.dead_letters], found.are_more) == (["699", "697", "695"], True)
    every = RecentDeadLetters("CTAS_COUNTS_1", 1_000).answer(site)
    assert (len(every.dead_letters), every.are_more) == (350, False)


# -- rows that go on ------------------------------------------------------------------------------------------------


def test_print_follows_the_topic(site: RequestContext, log: EmbeddedLog) -> None:
    site.node.execute(CLICKS)
    log.append([Append("clicks", [Record(b'{"PAGE": "/"}', b"1")])])
    printing = site.node.plan_transient_query("PRINT clicks FROM BEGINNING LIMIT 1;")
    assert isinstance(printing, TopicPrinter)

    async def first() -> list[Any]:
        news = asyncio.Event()
        async with push_subscription(
            site.run, site.node.push_queries, printing, thread_safe_setter(news), from_beginning=False
        ) as reader:
            return [json.loads(row.text) async for some in subscription_rows(reader, news) for row in some]

    ((_, key, value, partition),) = asyncio.run(first())
    assert (key, partition, "/" in str(value)) == ("1", 0, True)
    assert len(site.node.push_queries) == 0


def test_leaving_while_a_push_query_starts_stops_it(site: RequestContext) -> None:
    site.node.execute(CLICKS)
    asked = site.node.plan_select("SELECT * FROM clicks EMIT CHANGES;")
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        """Begins when it is told to."""

        def subscribe(self, *given: Any, **named: Any) -> Any:
            begun.set()
            go_on.wait(30)
            return site.node.push_queries.subscribe(*given, **named)

        def unsubscribe(self, reader: Any) -> None:
            site.node.push_queries.unsubscribe(reader)

    async def leave() -> None:
        async def follow() -> None:
            slow: Any = Slow()
            async with push_subscription(site.run, slow, asked, lambda: None, from_beginning=False):
                raise AssertionError("it was cancelled before")

        task = asyncio.create_task(follow())
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        go_on.set()

    async def left() -> None:
        await leave()
        for one in asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait([one])
        await asyncio.sleep(0)  # what was to be done behind it

    asyncio.run(left())
    assert len(site.node.push_queries) == 0


def test_a_push_query_beyond_the_limit_is_refused(site: RequestContext) -> None:
    site.node.execute(CLICKS)
    site.node.push_queries.max_queries = 1
    asked = site.node.plan_select("SELECT * FROM clicks EMIT CHANGES;")

    async def two() -> None:
        async with (
            push_subscription(site.run, site.node.push_queries, asked, lambda: None, from_beginning=False),
            push_subscription(site.run, site.node.push_queries, asked, lambda: None, from_beginning=False),
        ):
            pass

    with pytest.raises(TooManyReaders):
        asyncio.run(two())
    assert len(site.node.push_queries) == 0
