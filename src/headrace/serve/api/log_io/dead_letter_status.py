"""Status of dead letters: replayed or discarded. Each is resolved once, even if two users resolve it or after a crash.

A resolution is a record of an internal topic. It is appended together with the replayed record, in one transaction of
one named writer. Opening the writer fences its previous owner, and the topic is read after that, so all earlier
resolutions are known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headrace.contracts import Append, Appended, Log, TopicSpec
from headrace.errors import DeadLetterResolved
from headrace.log.folded_topic import FoldedTopic
from headrace.record import Record, StoredRecord

TOPIC = "__letters"
REPLAYED, DISCARDED = "replayed", "discarded"
_WRITER = "letters"


@dataclass(frozen=True)
class DeadLetterId:
    """The position of a dead letter. `created_at` distinguishes a topic from a deleted one of the same name."""

    topic: str
    created_at: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


_ById = dict[DeadLetterId, str]


class DeadLetterResolutions:
    """The resolutions of all dead letters. Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._topic = FoldedTopic[_ById](log, TOPIC, dict, _fold, TopicSpec(compact=True), writer=_WRITER)

    def of(self, dead_letters: Sequence[DeadLetterId]) -> list[str | None]:
        return self._topic.read(lambda known: [known.get(dead_letter) for dead_letter in dead_letters])

    def settle(self, dead_letter: DeadLetterId, resolution: str, appends: Sequence[Append] = ()) -> list[Appended]:
        """Record the resolution of a dead letter, and append the given records with it. Raises if it is resolved
        already.
        """
        document = json.dumps({"letter": asdict(dead_letter), "fate": resolution}).encode()

        def decide(known: _ById) -> tuple[list[Record], None]:
            if dead_letter in known:
                raise DeadLetterResolved(
                    f"dead letter {dead_letter} was already {known[dead_letter]}", fix="nothing needs to be done"
                )
            return [Record(document, str(dead_letter).encode())], None

        return self._topic.change(decide, appends)[1]


def _fold(status_by_id: _ById, record: StoredRecord) -> _ById:
    document = json.loads(record.value or b"{}")
    status_by_id[DeadLetterId(**document["letter"])] = document["fate"]
    return status_by_id
