"""Runs a query from raw records to raw records: the chain between its decoders and its encoder.

Results carry the headers of the record that caused them, as in Kafka Streams. Records that cannot be processed are
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

from headrace.plan.chain.interpreter import Chain, SourcePath
from headrace.plan.chain.records import Decoder, Encoder, Headers, RawRecord
from headrace.plan.functions.replay_context import ReplayContext
from headrace.plan.nodes import Query
from headrace.plan.rewrite import calls_nondeterministic
from headrace.plan.rules import RULES, Rule
from headrace.plan.steps import Batch, Context, Event, Problem


class Pipeline:
    """Runs one query; `feed`, `run` and `tick` return the records for its sink's topic, in order.

    `columns` are those of topics that have a schema (see `Decoder`). With `take`, the entries that reach the sink are
    passed to it before encoding, with their headers; then no records are returned.
    """

    def __init__(
        self,
        query: Query,
        context: Context | None = None,
        *,
        rules: Sequence[Rule] = RULES,
        columns: Mapping[str, Sequence[str]] | None = None,
        take: Callable[[Batch, Headers], None] | None = None,
    ) -> None:
        self._context = context or Context()
        self.chain = Chain(query, self._context, rules=rules)
        self._occasion = (
            ReplayContext(query.id, self._context.now) if calls_nondeterministic(self.chain.query.sink) else None
        )
        self._take = take
        self._encoder = Encoder(query.sink) if take is None else None
        self._doors = {
            topic: [
                (entrance, Decoder(entrance.source, (columns or {}).get(topic)))
                for entrance in self.chain.entrances_of(topic)
            ]
            for topic in self.chain.topics
        }

    def feed(self, topic: str, records: Sequence[RawRecord]) -> list[RawRecord]:
        """Feeds a batch of records of one topic, in order of arrival."""
        return self._passed(topic, records) + self._flushed()

    def _passed(self, topic: str, records: Sequence[RawRecord]) -> list[RawRecord]:
        out: list[RawRecord] = []
        if self._occasion is not None:
            for record in records:
                with self._occasion.record(topic, record.partition, record.offset, record.time):
                    out += self._written(self._fed(topic, [record]), record.headers)
            return out
        for headers, same in groupby(records, key=lambda record: record.headers):
            out += self._written(self._fed(topic, list(same)), headers)
        return out

    def run(self, inputs: Iterable[tuple[str, RawRecord]]) -> list[RawRecord]:
        """Feeds a batch of records of several topics, in order of arrival."""
        runs = groupby(inputs, key=lambda item: item[0])
        return self.run_runs((topic, [record for _, record in items]) for topic, items in runs)

    def run_runs(self, runs: Iterable[tuple[str, Sequence[RawRecord] | list[Event]]]) -> list[RawRecord]:
        """The same with consecutive records of a topic grouped. They may also be events, if they have no headers, only
        one source reads the topic, and no function of the plan depends on the identity of the record.
        """
        out: list[RawRecord] = []
        for topic, items in runs:
            if items and isinstance(items[0], RawRecord):
                out += self._passed(topic, items)  # type: ignore[arg-type]
            else:
                ((entrance, _),) = self._doors[topic]
                assert self._occasion is None
                out += self._written(entrance.feed(list(items)), ())
        return out + self._flushed()

    def tick(self, now: int) -> list[RawRecord]:
        """Advances time to `now` without a record."""
        with self._moment("tick", now):
            return self._written(self.chain.tick(now), ())

    def _flushed(self) -> list[RawRecord]:
        with self._moment("flush"):
            return self._written(self.chain.flush(), ())

    def _moment(self, what: str, time: int | None = None) -> AbstractContextManager[None]:
        return nullcontext() if self._occasion is None else self._occasion.moment(what, time)

    def _fed(self, topic: str, records: list[RawRecord]) -> Batch:
        doors = self._doors.get(topic, [])
        if len(doors) == 1:
            return self._entered(doors[0], records)
        # Both sides of a join may read this topic: each record must pass all its decoders before the next one.
        return [entry for record in records for door in doors for entry in self._entered(door, [record])]

    def _entered(self, door: tuple[SourcePath, Decoder], records: list[RawRecord]) -> Batch:
        entrance, decoder = door
        events: list[Event] = []
        for record in records:
            event = decoder.decode(record)
            if isinstance(event, Problem):
                self._context.report(event)
            else:
                events.append(event)
        return entrance.feed(events)

    def _written(self, batch: Batch, headers: Headers) -> list[RawRecord]:
        if self._take is not None:
            self._take(batch, headers)
        if self._encoder is None:
            return []
        made = [self._encoder.encode(entry, headers) for entry in batch]
        for record in made:
            if isinstance(record, Problem):
                self._context.report(record)
        return [record for record in made if isinstance(record, RawRecord)]
