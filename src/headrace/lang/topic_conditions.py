"""Conditions of a dialect as filters of the log: which rows of a topic a consumer gets.

    where = TopicCondition("amount > 100 AND city LIKE 'O%'", log.topic)
    log.consumer("billing", Subscription(("orders",), where=where))

A condition names the columns of the topic's schema. The values of a raw topic have columns if they are listed, as the
fields of JSON values, or if a stream or table is declared over the topic. Without them, `KEY` and `VALUE` are text.
`ROWTIME`, `ROWPARTITION`, `ROWOFFSET` and `HEADERS` belong to every topic.

A row matches if the condition is true, as in WHERE: a row that cannot be decoded, or for which the condition fails,
does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from headrace.clock import Clock, SystemClock
from headrace.contracts import Batch, Topic
from headrace.errors import BadFilter, HeadraceError, StatementError
from headrace.lang.registry import dialect_of
from headrace.plan import types as ty
from headrace.plan.analysis.batch_decoder import BatchDecoder
from headrace.plan.analysis.record_layout import can_read, header_tuples
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import RawRecord, system_reader
from headrace.plan.codegen.compiler import predicate
from headrace.plan.expressions import column_names
from headrace.plan.nodes import Filter, Source
from headrace.plan.relations import Format, Kind, Relation, System, SystemColumn, payload
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Context, Event, Problem
from headrace.schema import Field, Schema

_KAFKA, _JSON = Format("KAFKA"), Format("JSON")
_KEY, _VALUE = Field("KEY", ty.STRING), Field("VALUE", ty.STRING)
_HEADERS = Field("HEADERS", ty.array(ty.struct((("KEY", ty.STRING), ("VALUE", ty.BYTES)))))


class TopicCondition:
    """A filter of the log (see `contracts.Filter`). `columns` are the fields of JSON values in raw topics."""

    def __init__(
        self,
        text: str,
        topic: Callable[[str], Topic],
        *,
        columns: Schema | None = None,
        catalog: Callable[[], Catalog] = Catalog,
        clock: Clock | None = None,
    ) -> None:
        self._text = text
        self._topic = topic
        self._columns = columns
        self._catalog = catalog
        self._clock = clock or SystemClock()
        self._filters: dict[str, _CompiledFilter] = {}

    def __call__(self, batch: Batch) -> pa.Array:
        return self._filter_of(batch.topic)(batch)

    def check(self, topic: str) -> None:
        """Raise `BadFilter` if the condition is invalid for the topic."""
        self._filter_of(topic)

    def _filter_of(self, topic: str) -> _CompiledFilter:
        if topic not in self._filters:
            described = self._topic(topic)
            self._filters[topic] = _CompiledFilter(self._planned(described), described, self._clock)
        return self._filters[topic]

    def _planned(self, topic: Topic) -> Filter:
        """The condition over the first source of the topic that has its columns."""
        catalog = Catalog() if not topic.schema.is_raw or self._columns else self._catalog()
        errors: list[HeadraceError] = []
        for source in self._sources(topic, catalog):
            try:
                return _pruned(dialect_of().condition(self._text, _with_headers(source), catalog.types), topic)
            except HeadraceError as error:
                errors.append(error)
        raise self._bad(errors[0], topic)

    def _sources(self, topic: Topic, catalog: Catalog) -> Iterator[SourceInfo]:
        if not topic.schema.is_raw:
            if self._columns is not None:
                raise BadFilter(f'topic "{topic.name}" has a schema: its columns are known', fix="do not list columns")
            yield _typed_source(topic)
        elif self._columns is not None:
            yield _json_source(topic, self._columns)
        else:
            yield from (source for source in catalog.sources.values() if source.topic == topic.name)
            yield _source(topic, (_KEY,), (_VALUE,), _KAFKA)

    def _bad(self, error: HeadraceError, topic: Topic) -> BadFilter:
        fix = error.fix
        if topic.schema.is_raw and self._columns is None:
            fix = (
                f'{fix or "check the condition"}; list the fields of JSON values, for example --columns "amount double"'
            )
        span = error.span if isinstance(error, StatementError) else None
        return BadFilter(error.what, span=span, fix=fix or "see the topic's columns").located(self._text)


class _CompiledFilter:
    """The condition for one topic."""

    def __init__(self, planned: Filter, topic: Topic, clock: Clock) -> None:
        source = cast(Source, planned.input)
        fields = payload(source.relation, source.system)
        self._null_row = (None,) * len(fields)
        self._system = [system_reader(column) for column in source.system]
        bare = replace(source, relation=replace(source.relation, value=fields), system=())
        self._decoder = BatchDecoder(bare, topic)
        context = Context(now=clock.now)
        self._holds = predicate(planned.condition, source.relation, context, f"filter of topic {topic.name}")

    def __call__(self, batch: Batch) -> pa.Array:
        holds = self._holds
        events = self._decoder.decode(batch)
        if self._system:
            events = map(self._with_system, events, _envelopes(batch))
        return pa.array([not isinstance(event, Problem) and holds(*event) for event in events], pa.bool_())

    def _with_system(self, event: Event | Problem, envelope: RawRecord) -> Event | Problem:
        """A record without a value has system columns too."""
        if isinstance(event, Problem):
            return event
        time, key, row = event
        return time, key, (*(row or self._null_row), *(read(envelope) for read in self._system))


def _envelopes(batch: Batch) -> Iterator[RawRecord]:
    offsets, headers = batch.rows.column("$offset").to_pylist(), header_tuples(batch.rows.column("$headers"))
    for offset, pairs in zip(offsets, headers, strict=True):
        yield RawRecord(None, None, 0, pairs, batch.partition, offset)


def _typed_source(topic: Topic) -> SourceInfo:
    """The columns of the topic's schema, under their names in KSQL."""
    fields = [Field(f.name.upper(), kind) for f in topic.schema.fields if (kind := _type_in_chain(f.type)) is not None]
    names = {name.upper() for name in topic.schema.key}
    key = [field for field in fields if field.name in names]
    return _source(topic, key, [field for field in fields if field.name not in names], _JSON)


def _type_in_chain(stored: pa.DataType) -> pa.DataType | None:
    """The type of a column in expressions; None if they cannot read it."""
    kind = ty.DOUBLE if stored == pa.float32() else stored
    return kind if can_read(stored, kind) else None


def _json_source(topic: Topic, columns: Schema) -> SourceInfo:
    fields = [Field(field.name.upper(), _type_in_chain(field.type) or field.type) for field in columns.fields]
    return _source(topic, (_KEY,), fields, _JSON)


def _source(topic: Topic, key: Sequence[Field], value: Sequence[Field], value_format: Format) -> SourceInfo:
    relation = Relation(Kind.STREAM, tuple(key), tuple(value))
    return SourceInfo(topic.name, topic.name, relation, _KAFKA, value_format)


def _with_headers(source: SourceInfo) -> SourceInfo:
    """The source with the column HEADERS, unless it has a column of that name."""
    if source.relation.column(_HEADERS.name) is not None:
        return source
    relation = replace(source.relation, value=(*source.relation.value, _HEADERS))
    return replace(source, relation=relation, system=(*source.system, SystemColumn(_HEADERS.name, System.HEADERS)))


def _pruned(planned: Filter, topic: Topic) -> Filter:
    """The filter over a source that reads only the columns in use, where columns can be read one by one."""
    source, used = cast(Source, planned.input), column_names(planned.condition)
    if source.timestamp is not None:
        used.add(source.timestamp.column)
    system = tuple(column for column in source.system if column.name in used)
    unused = {column.name for column in source.system} - used

    def read(fields: Sequence[Field], form: Format) -> tuple[Field, ...]:
        if not topic.schema.is_raw:
            return tuple(field for field in fields if field.name in used)
        if form.name == _KAFKA.name:  # bytes are always valid
            fields = [field if field.name in used else Field(field.name, ty.BYTES) for field in fields]
        return tuple(field for field in fields if field.name not in unused)

    key, value = read(source.relation.key, source.key_format), read(source.relation.value, source.value_format)
    relation = replace(source.relation, key=key, value=value)
    return Filter(replace(source, relation=relation, system=system), relation, planned.condition)
