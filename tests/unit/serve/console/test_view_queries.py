"""Queries of pages on views: charts aggregate in the view, so that no row is omitted; grids keep every digit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Grant
from headrace.access.principal import Principal
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.errors import HeadraceError, TooManyRequests
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.serve.admission.quotas import USAGE, Quotas
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.console import poller
from headrace.serve.console.push_subscriptions import charged_stream
from headrace.serve.console.view_queries import ChartRequest, GridRequest
from headrace.serve.console.widgets.chart_kinds import CHART_KINDS
from headrace.serve.console.widgets.chart_panel import MAX_ROWS, ChartPanel
from headrace.settings import Settings
from headrace.settings.sections import QuotaSettings
from tests.unit.control.test_node import Nowhere

DECLARED = """
CREATE SOURCE TABLE sales (id INT PRIMARY KEY, shop STRING, n INT, big BIGINT, huge DECIMAL(38, 0), price DECIMAL(6, 2),
  at TIMESTAMP, ok BOOLEAN, many ARRAY<INT>, part STRUCT<name STRING>) WITH (kafka_topic='sales', format='JSON',
  partitions=1);
"""
ROWS = MAX_ROWS + 1_000


def sale(number: int) -> Record:
    value = {
        "SHOP": f"s{number % 3}",
        "N": 2_000_000 if number < 3_000 else 1,
        "BIG": 2**60 + number,
        "HUGE": 10**37,
        "PRICE": 1.5,
        "AT": 1_700_000_000_000 + number,
        "OK": True,
        "MANY": [1],
        "PART": {"NAME": "50% off"},
    }
    return Record(json.dumps(value).encode(), str(number).encode())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RequestContext]:
    """Over a view with more rows than a chart is drawn of."""
    folder: Path = tmp_path_factory.mktemp("asking") / "data"
    with EmbeddedLog(folder) as log, Node(log, Settings.of(storage_data=folder), isolation=Nowhere()) as node:
        node.execute(DECLARED)
        append(node, *map(sale, range(ROWS)))
        yield RequestContext(node).with_rights(ALL_RIGHTS)


def append(node: Node, *records: Record) -> None:
    node.log.append([Append("sales", list(records))])
    ends = {partition: bounds.end for partition, bounds in node.log.bounds("sales").items()}
    node.tables.wait_for("SALES", ends, timedelta(seconds=30))


def drawn(site: RequestContext, kind: str, x: str = "", y: str = "", by: str = "", **more: Any) -> Any:
    return ChartRequest(ChartPanel(kind, "SALES", x, y, by, **more)).answer(site)


def test_a_number_chart_sums_every_row_without_overflow(site: RequestContext) -> None:
    assert drawn(site, "number", y="N").options["title"]["text"] == f"{3_000 * 2_000_000 + ROWS - 3_000:,}"
    assert drawn(site, "number", y="HUGE").options["title"]["text"] == "6e+40"
    assert drawn(site, "number", y="PRICE").options["title"]["text"] == "9,000"


def test_bar_charts_aggregate_every_row(site: RequestContext) -> None:
    bars = drawn(site, "bar", "SHOP", "ID")
    wanted = [float(sum(range(shop, ROWS, 3))) for shop in range(3)]
    assert (bars.options["xAxis"]["data"], bars.options["series"][0]["data"]) == (["s0", "s1", "s2"], wanted)
    assert bars.note == ""
    top = drawn(site, "top", "SHOP", "ID", top=1)
    assert (top.options["yAxis"]["data"], top.options["series"][0]["data"]) == (["s2"], [wanted[2]])
    heat = drawn(site, "heat", "SHOP", "N", "OK")
    assert len(heat.options["series"][0]["data"]) == 3


def test_a_line_chart_shows_the_latest_rows_and_says_that_it_is_truncated(site: RequestContext) -> None:
    line = drawn(site, "line", "AT", "N")
    points = line.options["series"][0]["data"]
    assert (len(points), points[-1][0]) == (MAX_ROWS, 1_700_000_000_000 + ROWS - 1)
    assert line.options["xAxis"]["type"] == "time"
    assert line.note == "Shows the last 5,000 rows"
    assert drawn(site, "line", "AT", "N", where="ID < 10").note == ""
    assert drawn(site, "histogram", "N").note == "Shows the first 5,000 rows"
    assert drawn(site, "bar", "ID", "N").note == "Shows the first 60 of more than 5,000 values of ID"


@pytest.mark.parametrize("kind", CHART_KINDS)
def test_every_kind_of_chart_accepts_every_column(site: RequestContext, kind: str) -> None:
    """Drawn, or refused in words."""
    for column in ("ID", "SHOP", "BIG", "HUGE", "PRICE", "AT", "OK", "MANY", "PART", "ROWTIME", "GONE"):
        with suppress(HeadraceError):
            assert drawn(site, kind, column, column, column, where="ID < 50").options


def test_an_incomplete_condition_is_refused(site: RequestContext) -> None:
    for where in ("1 = 1 EMIT CHANGES", "ID = 1 LIMIT 3; --", "ID = 1 GROUP BY SHOP --"):
        with pytest.raises(HeadraceError):
            drawn(site, "number", y="N", where=where)


def test_grids_keep_every_digit_and_search_all_rows(site: RequestContext) -> None:
    found = GridRequest("SALES", where="ID = 1").answer(site)
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert [found.columns[place] for place in found.times] == ["AT"]
    assert (row["BIG"], row["HUGE"], row["PRICE"]) == (2**60 + 1, 10**37, Decimal("1.50"))
    assert len(GridRequest("SALES", text=f"{2**60 + ROWS - 1}").answer(site).rows) == 1
    assert len(GridRequest("SALES", text="50% OFF", limit=7).answer(site).rows) == 7
    assert GridRequest("SALES", where="ID < 9 OR ID = 9", text="it's nowhere").answer(site).rows == []


# -- once for everybody ---------------------------------------------------------------------------------------------


def test_a_result_is_cached_until_the_view_changes(site: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "POLL_SECONDS", 0.0)  # every question is looked at
    monkeypatch.setattr(poller, "_REST", 0)
    answers, asked = poller.SharedRequestCache(), ChartRequest(ChartPanel("number", "SALES", y="ID"))

    async def ask(times: int = 1, **who: Any) -> list[Any]:
        return [await answers.of(seen_by(site, **who), replace(asked)) for _ in range(times)]

    first, second, third = asyncio.run(ask(3))
    assert first is second is third
    append(site.node, sale(ROWS))
    (moved,) = asyncio.run(ask())
    assert moved.options["title"]["text"] != first.options["title"]["text"]
    (some,) = asyncio.run(ask(grants=["ID < 10"]))
    assert some.options["title"]["text"] == "45"
    with pytest.raises(HeadraceError):
        asyncio.run(ask(grants=[]))


def test_a_chart_is_a_pull_query_within_the_quotas_of_its_user(site: RequestContext) -> None:
    site = seen_by(site, grants=["ID < 10"])
    site.quotas = Quotas(lambda name: QuotaSettings(requests_per_second=1))
    pulls, own = (site.admission.queues[work].statistics for work in (WorkClass.PULL, WorkClass.CONSOLE))
    before = pulls.admitted, own.admitted

    async def ask(column: str) -> Any:
        return await poller.SharedRequestCache().of(site, ChartRequest(ChartPanel("number", "SALES", y=column)))

    assert asyncio.run(ask("ID")).options["title"]["text"] == "45"
    assert (pulls.admitted, own.admitted) == (before[0] + 1, before[1])
    usage = site.quotas.usage("ann")
    assert usage is not None
    usage.charge("quota.requests_per_second", 10)
    with pytest.raises(TooManyRequests):
        asyncio.run(ask("N"))
    assert USAGE.get() is None


def test_a_push_query_of_a_page_counts_for_its_user(site: RequestContext) -> None:
    site = seen_by(site, grants=[])
    site.quotas = Quotas(lambda name: QuotaSettings(push_queries=1))

    async def main() -> None:
        async with charged_stream(site) as run:
            assert await run(cast(Any, lambda: 42)) == 42
            with pytest.raises(TooManyRequests):
                async with charged_stream(site):
                    pass
        async with charged_stream(site):
            pass

    asyncio.run(main())
    assert site.admission.queues[WorkClass.PUSH].statistics.admitted == 1


def seen_by(site: RequestContext, grants: list[str] | None = None) -> RequestContext:
    """Grants are of reading, each with its condition."""
    if grants is None:
        return site
    return site.with_rights(Rights(Principal("ann"), [Grant.of("read", "source", "SALES", where) for where in grants]))


def test_a_query_with_a_time_condition_is_not_cached(site: RequestContext) -> None:
    assert ChartRequest(ChartPanel("number", "SALES", y="N")).stamp(site) is not None
    assert (
        ChartRequest(ChartPanel("number", "SALES", y="N", where="AT > FROM_UNIXTIME(UNIX_TIMESTAMP())")).stamp(site)
        is None
    )
