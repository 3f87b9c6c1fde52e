"""Topics: which there are, and what one holds: its records by content and time, as they come, and one more by hand."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from headrace.serve.api.groups import Named as Group
from headrace.serve.api.groups import get_group, list_groups
from headrace.serve.api.parameters import Payload
from headrace.serve.api.records import Produce, produce
from headrace.serve.api.searching import Search, search_records
from headrace.serve.api.topics import Named, get_topic
from headrace.serve.dashboard import words
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Facts, Grid, link, moving, notified, tag, text
from headrace.serve.dashboard.pulse import Moment

PAGE = 50
_OWN = ("$partition", "$offset", "$timestamp", "$headers", "$deleted")


async def topics(desk: Desk) -> None:
    grid = Grid(
        Column("name", "Topic"),
        Column("rate", "Records in", right=True),
        Column("records", "Records", right=True),
        Column("partitions", "Partitions", right=True),
        Column("streams", "Streams and tables"),
        label="Topics",
    )

    def show(moment: Moment) -> None:
        over: dict[str, list[str]] = {}
        for name, source in moment.sources.items():
            over.setdefault(source.topic, []).append(name)
        grid.show(
            [
                {
                    "name": topic.name,
                    "rate": words.rate(topic.rate),
                    "records": f"{topic.records:,}",
                    "partitions": topic.partitions,
                    "streams": ", ".join(over.get(topic.name, ())),
                    "link": link("topics", topic.name),
                }
                for topic in moment.topics.values()
            ]
        )

    await moving(desk, show)


async def topic(desk: Desk, topic: str) -> None:
    described = await desk.ask(get_topic, Named(topic=topic))
    options = {name: value for name, value in described.options.items() if value not in (None, False, "raw")}
    facts = Facts(records="", rate="", schema=described.schema, **options)

    def show(moment: Moment) -> None:
        if (now := moment.topics.get(topic)) is not None:
            facts.show(records=f"{now.records:,}", rate=words.rate(now.rate))

    text("h2", "Records")
    records = Records(desk, topic)
    await records.search()
    text("h2", "Append a record")
    Form(desk, topic, typed=described.schema != "raw", then=records.search)
    await _groups(desk, topic)

    async def look(moment: Moment) -> None:
        show(moment)
        await records.follow()

    await moving(desk, look)


class Records:
    """What a search has found, the newest first."""

    def __init__(self, desk: Desk, topic: str) -> None:
        self._desk, self._topic = desk, topic
        self._found: list[dict[str, Any]] = []
        self._next = "end"
        with tag("form").classes("hr-row").on("submit.prevent", self.search):
            self._text = ui.input("Search for").props("clearable dense outlined")
            self._from = ui.input("Not older than", placeholder="-10m, or a time").props("clearable dense outlined")
            ui.button("Search").props("type=submit unelevated no-caps")
            self._live = ui.switch("Follow", on_change=self.search)
        self._told = text("p", "").classes("hr-told").props("role=status")
        self._grid = Grid(
            Column("at", "Time (UTC)"),
            Column("place", "Partition/offset"),
            Column("key", "Key"),
            Column("value", "Value"),
            key="place",
            label="Records",
        )
        self._more = ui.button("Older ones", on_click=self.older).props("flat no-caps")

    async def search(self) -> None:
        """From the newest on."""
        self._found, self._next = [], "end"
        await self.older()

    async def follow(self) -> None:
        if self._live.value:
            await self.search()

    async def older(self) -> None:
        with notified():
            asked = Search(
                topic=self._topic,
                text=self._text.value or "",
                start=self._from.value or "beginning",
                before=self._next,
                limit=PAGE,
            )
            page = json.loads((await self._desk.ask(search_records, asked)).content)
            self._found += page["records"]
            self._next = page["next"]
            looked_at = f"{page['looked_at']:,} looked at" + ("" if page["done"] else ", older ones not yet")
            self._told.set_text(f"{len(self._found)} found, {looked_at}")
            self._more.set_visibility(not page["done"])
            self._grid.show([_row(one) for one in self._found])


def _row(record: dict[str, Any]) -> dict[str, object]:
    row: dict[str, object] = {
        "at": words.moment(record["$timestamp"]),
        "place": f"{record['$partition']}/{record['$offset']}",
    }
    if "key" in record or "key_base64" in record:
        return row | {"key": record.get("key", record.get("key_base64")), "value": _value(record)}
    return row | {"key": "", "value": json.dumps({n: v for n, v in record.items() if n not in _OWN})}


def _value(record: dict[str, Any]) -> object:
    value = record.get("value", record.get("value_base64"))
    return "deleted" if value is None else value


class Form:
    """A record by hand."""

    def __init__(self, desk: Desk, topic: str, *, typed: bool, then: Any) -> None:
        self._desk, self._topic, self._typed, self._then = desk, topic, typed, then
        with tag("form").classes("hr-row").on("submit.prevent", self._send):
            if not typed:
                self._key = ui.input("Key").props("dense outlined")
            label = "Row as JSON" if typed else "Value"
            self._value = ui.input(label).props("dense outlined").classes("hr-wide")
            ui.button("Append").props("type=submit unelevated no-caps")

    async def _send(self) -> None:
        value = self._value.value or ""
        row = value if self._typed else json.dumps({"key": self._key.value or None, "value": value})
        with notified():
            content = Payload(f"[{row}]".encode(), "application/json")
            await self._desk.ask(produce, Produce(topic=self._topic, content=content))
            ui.notify("appended", type="positive")
            await self._then()


async def _groups(desk: Desk, topic: str) -> None:
    """Who reads the topic as a group, and how far each is behind."""
    described = [await desk.ask(get_group, Group(group=one.name)) for one in await desk.ask(list_groups)]
    rows: list[dict[str, object]] = [
        {
            "group": group.name,
            "place": at.partition,
            "offset": at.offset,
            "lag": f"{at.lag:,}",
            "member": at.member or "",
        }
        for group in described
        for at in group.offsets
        if at.topic == topic
    ]
    if rows:
        text("h2", "Groups")
        Grid(
            Column("group", "Group"),
            Column("place", "Partition", right=True),
            Column("offset", "Offset", right=True),
            Column("lag", "Behind", right=True),
            Column("member", "Member"),
        ).show(rows)
