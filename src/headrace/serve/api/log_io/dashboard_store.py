"""Saved dashboards, by name, in an internal topic."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Log, TopicSpec
from headrace.log.folded_topic import FoldedTopic, latest_by_key
from headrace.record import Record

TOPIC = "__dashboards"


@dataclass(frozen=True)
class Dashboard:
    """A saved dashboard. `panels` are charts, each with its `kind`, `view` and columns. Only its owner or an admin may
    change it.
    """

    name: str
    title: str
    panels: list[dict[str, Any]]
    owner: str

    def record(self) -> Record:
        value = {"title": self.title, "panels": self.panels, "owner": self.owner}
        return Record(json.dumps(value).encode(), self.name.encode())


DashboardsByName = dict[str, Dashboard]


def dashboard_store(log: Log) -> FoldedTopic[DashboardsByName]:
    """The dashboards by name, each as last saved."""
    fold = latest_by_key(lambda name, value: Dashboard(name, **json.loads(value)))
    return FoldedTopic(log, TOPIC, dict, fold, TopicSpec(compact=True))
