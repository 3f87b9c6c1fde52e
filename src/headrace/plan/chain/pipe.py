"""A query from raw records to raw records: the chain between its decoders and its encoder.

What a record causes carries that record's headers on, as in Kafka Streams. Records that cannot be used are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from headrace.plan.chain.chain import Chain, Entrance
from headrace.plan.chain.contract import Batch, Context, Event, Problem
from headrace.plan.chain.records import Decoder, Encoder, Headers, Raw
from headrace.plan.nodes import Query
from headrace.plan.rules import RULES, Rule


class Pipe:
    """One query; `feed`, `run` and `tick` give the records for its sink's topic, in order.

    `columns` are those of topics that have a schema (see `Decoder`).
    """

    def __init__(
        self,
        query: Query,
        context: Context | None = None,
        *,
        rules: Sequence[Rule] = RULES,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._context = context or Context()
        self.chain = Chain(query, self._context, rules=rules)
        self._encoder = Encoder(query.sink)
        self._doors = {
            topic: [
                (entrance, Decoder(entrance.source, (columns or {}).get(topic)))
                for entrance in self.chain.entrances_of(topic)
            ]
            for topic in self.chain.topics
        }

    def feed(self, topic: str, records: Sequence[Raw]) -> list[Raw]:
        """A batch of records of one topic, in order of arrival."""
        return self._passed(topic, records) + self._written(self.chain.flush(), ())

    def _passed(self, topic: str, records: Sequence[Raw]) -> list[Raw]:
        out: list[Raw] = []
        for headers, same in groupby(records, key=lambda record: record.headers):
            out += self._written(self._fed(topic, list(same)), headers)
        return out

    def run(self, inputs: Iterable[tuple[str, Raw]]) -> list[Raw]:
        """A batch of records of several topics, in order of arrival."""
        runs = groupby(inputs, key=lambda item: item[0])
        return self.run_runs((topic, [record for _, record in items]) for topic, items in runs)

    def run_runs(self, runs: Iterable[tuple[str, Sequence[Raw] | list[Event]]]) -> list[Raw]:
        """The same where consecutive records of a topic come together. They may also come as events, if they have no
        headers, and just one source reads the topic.
        """
        out: list[Raw] = []
        for topic, items in runs:
            if items and isinstance(items[0], Raw):
                out += self._passed(topic, items)  # type: ignore[arg-type]
            else:
                ((entrance, _),) = self._doors[topic]
                out += self._written(entrance.feed(list(items)), ())
        return out + self._written(self.chain.flush(), ())

    def tick(self, now: int) -> list[Raw]:
        """Time has come to `now` without a record."""
        return self._written(self.chain.tick(now), ())

    def _fed(self, topic: str, records: list[Raw]) -> Batch:
        doors = self._doors.get(topic, [])
        if len(doors) == 1:
            return self._entered(doors[0], records)
        # Both sides of a join may read this topic: each record must have passed all doors before the next one comes.
        return [entry for record in records for door in doors for entry in self._entered(door, [record])]

    def _entered(self, door: tuple[Entrance, Decoder], records: list[Raw]) -> Batch:
        entrance, decoder = door
        events: list[Event] = []
        for record in records:
            event = decoder.decode(record)
            if isinstance(event, Problem):
                self._context.report(event)
            else:
                events.append(event)
        return entrance.feed(events)

    def _written(self, batch: Batch, headers: Headers) -> list[Raw]:
        made = [self._encoder.encode(entry, headers) for entry in batch]
        for record in made:
            if isinstance(record, Problem):
                self._context.report(record)
        return [record for record in made if isinstance(record, Raw)]
