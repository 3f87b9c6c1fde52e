"""Saved dashboards, by name, in an internal topic."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.contracts import Log, TopicSpec
from headrace.log.folded_topic import FoldedTopic, latest_by_key
from headrace.record import Record

TOPIC = "__dashboards"


class Sharing(StrEnum):
    """What others than the owner and admins may do with a dashboard."""

    PRIVATE = "private"
    READ = "read"
    EDIT = "edit"


@dataclass(frozen=True)
class Dashboard:
    """A saved dashboard. `panels` are charts, each with its `kind`, `view` and columns. `sharing` is `private`, or says
    what others may do: `read` or `edit`. Only its owner or an admin may change the sharing, or delete it.
    """

    name: str
    title: str
    panels: list[dict[str, Any]]
    owner: str = "local"
    sharing: str = Sharing.READ  # a dashboard from before sharing

    def record(self) -> Record:
        value = {"title": self.title, "panels": self.panels, "owner": self.owner, "sharing": self.sharing}
        return Record(json.dumps(value).encode(), self.name.encode())


DashboardsByName = dict[str, Dashboard]


def dashboard_store(log: Log) -> FoldedTopic[DashboardsByName]:
    """The dashboards by name, each as last saved."""
    fold = latest_by_key(lambda name, value: Dashboard(name, **json.loads(value)))
    return FoldedTopic(log, TOPIC, dict, fold, TopicSpec(compact=True))
