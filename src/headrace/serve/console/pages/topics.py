"""The topics pages: a list, and one topic's records with search, time range, live tail and a form to produce one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nicegui import ui

from headrace.control.statements.permissions import visible_catalog
from headrace.plan.types import type_text
from headrace.schema import Field
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.positions import format_positions, start_positions
from headrace.serve.api.parameters import Payload
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.groups import CommittedOffset, get_group, list_groups
from headrace.serve.api.resources.groups import GroupRequest as Group
from headrace.serve.api.resources.record_search import SearchRequest, search_records
from headrace.serve.api.resources.records import ProduceRequest, ProduceResponse, produce
from headrace.serve.api.resources.topics import TopicRequest, get_topic
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.record_rows import RecordRows
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.layout import (
    Column,
    Facts,
    Grid,
    SortedNumber,
    auto_refresh,
    html_tag,
    html_text,
    integer_cell,
    notify_errors,
    page_link,
)

PAGE_SIZE = 50
MAX_SHOWN_RECORDS = 500
"""Maximum records that a page shows while it follows a topic."""


async def topics(context: PageContext) -> None:
    grid = Grid(
        Column("name", "Topic"),
        Column("rate", "Records in/s", right=True),
        Column("records", "Records", right=True),
        Column("partitions", "Partitions", right=True),
        Column("streams", "Streams and tables", wraps=True),
        label="Topics",
        empty="No topics yet. CREATE STREAM on the Statements page creates one.",
    )

    def show(moment: ServerSnapshot) -> None:
        over: dict[str, list[str]] = {}
        for name, source in moment.sources.items():
            over.setdefault(source.topic, []).append(name)
        grid.show(
            [
                {
                    "name": topic.name,
                    "rate": SortedNumber(topic.rate, number_format.format_rate(topic.rate)),
                    "records": integer_cell(topic.records),
                    "partitions": topic.partitions,
                    "streams": ", ".join(over.get(topic.name, ())),
                    "link": page_link("topics", topic.name),
                }
                for topic in moment.topics.values()
            ]
        )

    await auto_refresh(context, show)


async def topic(context: PageContext, topic: str) -> None:
    described = await context.call(get_topic, TopicRequest(topic=topic))
    schema = _schema(context, topic, described.schema)
    facts = Facts(records="", records_per_second="", **_options(described.options), schema=schema)
    html_text("h2", "Records")
    records = RecordSearch(context, topic)
    await records.search()
    html_text("h2", "Produce a record")
    RecordForm(context, topic, typed=described.schema != "raw", then=records.search)
    groups = TopicGroups(context, topic)

    async def refresh(moment: ServerSnapshot) -> None:
        if (now := moment.topics.get(topic)) is None:  # deleted, or not yet in a snapshot
            await context.call(get_topic, TopicRequest(topic=topic))
            return
        facts.show(records=f"{now.records:,}", records_per_second=number_format.format_rate(now.rate))
        await records.follow(now.end)
        await groups.show()

    await auto_refresh(context, refresh)


def _schema(context: PageContext, topic: str, schema: str) -> str:
    """The schema; for a raw topic, those of the streams and tables over it."""
    over = [
        one for one in visible_catalog(context.api.node.catalog, context.rights).sources.values() if one.topic == topic
    ]
    if schema != "raw" or not over:
        return schema
    return "; ".join(f"{one.name} ({', '.join(map(_column, one.relation.columns))})" for one in over)


def _column(field: Field) -> str:
    return f"{field.name} {type_text(field.type)}"


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    bounded = options.get("retention_bytes") or options.get("compact")
    retention = {"retention_time": options.get("retention_time") or ("no limit" if bounded else "forever")}
    return {name: value for name, value in options.items() if value not in (None, False, "raw")} | retention


class RecordSearch:
    """The results of a search, newest first."""

    def __init__(self, context: PageContext, topic: str) -> None:
        self._context, self._topic = context, topic
        self._found: list[dict[str, Any]] = []
        self._reached = self._next = ""
        self._scanned = 0
        self._end = -1
        with html_tag("form").classes("hr-row").on("submit.prevent", self.search):
            self._text = ui.input("Search text").props("clearable dense outlined")
            self._from = ui.input("From", placeholder="-10m, or a time").props("clearable dense outlined")
            self._to = ui.input("To", placeholder="-5m, or a time").props("clearable dense outlined")
            ui.button("Search").props("type=submit unelevated no-caps")
            self._live = ui.switch("Follow new records", on_change=self.search)
        self._summary = html_text("p", "").classes("hr-note").props("role=status")
        self._rows = RecordRows(visible_catalog(context.api.node.catalog, context.rights), topic)
        window = [Column("window", "Window (UTC)")] if self._rows.is_windowed else []
        self._grid = Grid(
            Column("at", "Time (UTC)"),
            Column("place", "Partition/offset"),
            Column("key", "Key"),
            *window,
            Column("value", "Value"),
            key="place",
            label="Records",
            empty="No records.",
        )
        self._more = ui.button("Load older records", on_click=self.older).props("flat no-caps")

    async def search(self) -> None:
        """Search from the newest record on."""
        with notify_errors():
            self._reached = await self._ends()
            self._show(await self._page(self._from.value or "beginning", self._to.value or self._reached), [])

    async def older(self) -> None:
        with notify_errors():
            self._show(await self._page(self._from.value or "beginning", self._next), self._found)

    async def follow(self, end: int) -> None:
        """Show the records since the last poll. If there are more than a page, they replace the earlier ones."""
        if not self._live.value or self._to.value or end == self._end:
            return
        self._end, before = end, self._reached
        self._reached = await self._ends()
        page = await self._page(before, self._reached)
        if not page["done"]:
            self._show(page, [])
        elif page["records"]:
            self._found = [*page["records"], *self._found][:MAX_SHOWN_RECORDS]
            self._summary.set_text(f"{number_format.plural(len(self._found), 'record')}, following new ones")
            self._grid.show([self._rows.row(one) for one in self._found])

    async def _ends(self) -> str:
        context = self._context.api
        return await context.run(lambda: format_positions(start_positions(context.log, self._topic, "end")))

    async def _page(self, start: str, before: str) -> dict[str, Any]:
        params = SearchRequest(
            topic=self._topic, text=self._text.value or "", start=start, before=before, limit=PAGE_SIZE
        )
        return json.loads((await self._context.call(search_records, params)).content)

    def _show(self, page: dict[str, Any], before: list[dict[str, Any]]) -> None:
        self._found, self._next = [*before, *page["records"]], page["next"]
        self._scanned = page["scanned"] + (self._scanned if before else 0)
        self._summary.set_text(search_summary(len(self._found), self._scanned, self._text.value, is_done=page["done"]))
        self._more.set_visibility(not page["done"])
        self._grid.show([self._rows.row(one) for one in self._found])


def search_summary(matches: int, scanned: int, text: str | None, *, is_done: bool) -> str:
    """For example "50 matches in the newest 100 records"."""
    if not text:
        records = number_format.plural(matches, "record")
        return records if is_done else f"The newest {records}"
    where = f"all {scanned:,} records" if is_done else f"the newest {scanned:,} records"
    return f"{number_format.plural(matches, 'match', 'matches')} in {where}"


class RecordForm:
    """A form that produces one record."""

    def __init__(self, context: PageContext, topic: str, *, typed: bool, then: Any) -> None:
        self._context, self._topic, self._typed, self._then = context, topic, typed, then
        with html_tag("form").classes("hr-row").on("submit.prevent", self._send):
            if not typed:
                self._key = ui.input("Key").props("dense outlined")
            label = "Row (JSON)" if typed else "Value"
            self._value = ui.input(label).props("dense outlined").classes("hr-wide")
            ui.button("Produce").props("type=submit unelevated no-caps")

    async def _send(self) -> None:
        value = self._value.value or ""
        row = value if self._typed else json.dumps({"key": self._key.value or None, "value": value})
        with notify_errors():
            content = Payload(f"[{row}]".encode(), "application/json")
            done: ProduceResponse = await self._context.call(
                produce, ProduceRequest(topic=self._topic, content=content)
            )
            where = ", ".join(f"partition {one.partition}, offset {one.offset}" for one in done.parts)
            ui.notify(f"Record produced: {where}", type="positive")
            await self._then()


@dataclass(frozen=True)
class TopicGroupsRequest:
    """The consumer groups of a topic with their lag, fetched once a second for all pages."""

    topic: str

    work: ClassVar = WorkClass.CONSOLE

    def stamp(self, context: RequestContext) -> object:
        """None: groups advance without a new version."""
        return None

    def answer(self, context: RequestContext) -> list[dict[str, object]]:
        groups = [get_group(context, Group(group=one.name)) for one in list_groups(context)]
        return [_group(group.name, at) for group in groups for at in group.offsets if at.topic == self.topic]


def _group(name: str, at: CommittedOffset) -> dict[str, object]:
    facts = {"id": f"{name}/{at.partition}", "group": name, "place": at.partition, "offset": integer_cell(at.offset)}
    return {**facts, "lag": integer_cell(at.lag), "member": at.member or ""}


class TopicGroups:
    def __init__(self, context: PageContext, topic: str) -> None:
        self._context, self._topic = context, topic
        self._root = html_tag("section")
        with self._root:
            html_text("h2", "Consumer groups")
            self._grid = Grid(
                Column("group", "Group"),
                Column("place", "Partition", right=True),
                Column("offset", "Committed offset", right=True),
                Column("lag", "Lag", right=True),
                Column("member", "Consumer"),
                key="id",
                label="Consumer groups",
            )

    async def show(self) -> None:
        rows: list[dict[str, object]] = await self._context.cached(TopicGroupsRequest(self._topic))
        self._root.set_visibility(bool(rows))
        self._grid.show(rows)
