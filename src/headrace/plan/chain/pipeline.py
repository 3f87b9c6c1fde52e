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
        self._replay = (
            ReplayContext(query.id, self._context.now) if calls_nondeterministic(self.chain.query.sink) else None
        )
        self._take = take
        self._encoder = Encoder(query.sink) if take is None else None
        self._sources = {
            topic: [
                (source_path, Decoder(source_path.source, (columns or {}).get(topic)))
                for source_path in self.chain.source_paths_of(topic)
            ]
            for topic in self.chain.topics
        }

    def feed(self, topic: str, records: Sequence[RawRecord]) -> list[RawRecord]:
        """Feeds a batch of records of one topic, in order of arrival."""
        return self._process(topic, records) + self._flush()

    def _process(self, topic: str, records: Sequence[RawRecord]) -> list[RawRecord]:
        out: list[RawRecord] = []
        if self._replay is not None:
            for record in records:
                with self._replay.record(topic, record.partition, record.offset, record.time):
                    out += self._encode(self._feed_sources(topic, [record]), record.headers)
            return out
        for headers, same in groupby(records, key=lambda record: record.headers):
            out += self._encode(self._feed_sources(topic, list(same)), headers)
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
                out += self._process(topic, items)  # type: ignore[arg-type]
            else:
                ((source_path, _),) = self._sources[topic]
                assert self._replay is None
                out += self._encode(source_path.feed(list(items)), ())
        return out + self._flush()

    def tick(self, now: int) -> list[RawRecord]:
        """Advances time to `now` without a record."""
        with self._replay_moment("tick", now):
            return self._encode(self.chain.tick(now), ())

    def _flush(self) -> list[RawRecord]:
        with self._replay_moment("flush"):
            return self._encode(self.chain.flush(), ())

    def _replay_moment(self, what: str, time: int | None = None) -> AbstractContextManager[None]:
        return nullcontext() if self._replay is None else self._replay.moment(what, time)

    def _feed_sources(self, topic: str, records: list[RawRecord]) -> Batch:
        sources = self._sources.get(topic, [])
        if len(sources) == 1:
            return self._feed_source(sources[0], records)
        # Both sides of a join may read this topic: each record must pass all its decoders before the next one.
        return [entry for record in records for source in sources for entry in self._feed_source(source, [record])]

    def _feed_source(self, source: tuple[SourcePath, Decoder], records: list[RawRecord]) -> Batch:
        source_path, decoder = source
        events: list[Event] = []
        for record in records:
            event = decoder.decode(record)
            if isinstance(event, Problem):
                self._context.report(event)
            else:
                events.append(event)
        return source_path.feed(events)

    def _encode(self, batch: Batch, headers: Headers) -> list[RawRecord]:
        if self._take is not None:
            self._take(batch, headers)
        if self._encoder is None:
            return []
        encoded = [self._encoder.encode(entry, headers) for entry in batch]
        for record in encoded:
            if isinstance(record, Problem):
                self._context.report(record)
        return [record for record in encoded if isinstance(record, RawRecord)]
