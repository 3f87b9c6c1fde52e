"""Who has created a topic by `POST /topics`, in an internal topic. What statements create has its owner in the journal.

A topic of the same name that was created later by other means is not the owner's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.contracts import Log, Topic, TopicSpec
from headrace.log.folded_topic import FoldedTopic, latest_by_key
from headrace.record import Record

TOPIC = "__topic_owners"


@dataclass(frozen=True)
class TopicOwner:
    owner: str
    created_at: int


class TopicOwners:
    """Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        fold = latest_by_key(lambda _, value: TopicOwner(**json.loads(value)))
        self._topic: FoldedTopic[dict[str, TopicOwner]] = FoldedTopic(log, TOPIC, dict, fold, TopicSpec(compact=True))

    def record(self, topic: Topic, owner: str) -> None:
        """Store the owner of a new topic, and forget topics that do not exist any more."""
        value = json.dumps({"owner": owner, "created_at": topic.created_at})

        def decide(owners: dict[str, TopicOwner]) -> tuple[Sequence[Record], None]:
            gone = owners.keys() - {existing.name for existing in self._log.topics()}
            return [*(Record(None, name.encode()) for name in gone), Record(value.encode(), topic.name.encode())], None

        self._topic.change(decide)

    def owner(self, topic: Topic) -> str | None:
        """The principal that has created a topic; None if it is not known."""
        stored = self._topic.read(lambda owners: owners.get(topic.name))
        return stored.owner if stored is not None and stored.created_at == topic.created_at else None
