"""What would become of a script's queries: how each will run, on topics that are there and those that would be made.

prospect = Prospect(settings, find)
prospect.look(query).lines()
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.contracts import Topic, TopicSpec
from headrace.control.sinks import sink_spec
from headrace.engine.outlook import Outlook, outlook
from headrace.plan.nodes import Query
from headrace.settings import Settings


class Prospect:
    """Of one script, whose queries are shown in order; `find` gives a topic that is there, or None."""

    def __init__(self, settings: Settings, find: Callable[[str], Topic | None]) -> None:
        self._settings = settings
        self._find = find
        self._topics: dict[str, Topic] = {}

    def look(self, query: Query) -> Outlook:
        for source in query.sources:
            self._ensure(source.topic, TopicSpec())
        self._ensure(query.sink.topic, sink_spec(query.sink, self._settings))
        return outlook(query, self._topics, self._settings, embedded=self._settings.log == "embedded")

    def _ensure(self, name: str, spec: TopicSpec) -> None:
        if name not in self._topics:
            self._topics[name] = self._find(name) or Topic(name, spec, 0)
