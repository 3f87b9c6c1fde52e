"""Explains how a script's queries would run, on existing topics and on those that they would create.

explainer = ExecutionExplainer(settings, find)
explainer.explain(query).lines()
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.contracts import Topic, TopicSpec
from headrace.control.statements.sink_topic import sink_topic_spec
from headrace.engine.planning.mode import ExecutionChoice, choose_execution
from headrace.plan.nodes import Query
from headrace.settings import Settings


class ExecutionExplainer:
    """Explains the queries of one script in order; `find` returns an existing topic, or None."""

    def __init__(self, settings: Settings, find: Callable[[str], Topic | None]) -> None:
        self._settings = settings
        self._find = find
        self._topics: dict[str, Topic] = {}

    def explain(self, query: Query) -> ExecutionChoice:
        for source in query.sources:
            self._ensure(source.topic, TopicSpec())
        self._ensure(query.sink.topic, sink_topic_spec(query.sink, self._settings))
        return choose_execution(query, self._topics, self._settings, embedded=self._settings.storage.log == "embedded")

    def _ensure(self, name: str, spec: TopicSpec) -> None:
        if name not in self._topics:
            self._topics[name] = self._find(name) or Topic(name, spec, 0)
