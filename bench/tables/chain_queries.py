"""The queries of table `chain`, as plans, run by the chain in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from bench.harness.case import Work
from bench.tables.chain_rows import LEAST, WINDOW_MS, Process, users
from headrace.plan import types as ty
from headrace.plan.chain.interpreter import Chain
from headrace.plan.expressions import Arithmetic, Column, Compare, Comparison, Literal, NamedExpression, Op
from headrace.plan.functions import AGGREGATES
from headrace.plan.nodes import Aggregate, AggregateCall, Filter, JoinKind, Query, Select, Sink, Source, StreamTableJoin
from headrace.plan.relations import Format, Kind, Relation, Window, WindowKind
from headrace.schema import Field

_USER, _ITEM, _AMOUNT = Column(ty.STRING, "USER"), Column(ty.STRING, "ITEM"), Column(ty.INT, "AMOUNT")


def _relation(kind: Kind, window: Window | None = None, **values: pa.DataType) -> Relation:
    fields = tuple(Field(name, of) for name, of in values.items())
    return Relation(kind, (Field("USER", ty.STRING),), fields, window)


_PURCHASES = _relation(Kind.STREAM, ITEM=ty.STRING, AMOUNT=ty.INT)
_USERS = _relation(Kind.TABLE, CITY=ty.STRING)


def _source(topic: str, relation: Relation) -> Source:
    return Source(topic.upper(), topic, relation, Format("KAFKA"), Format("JSON"))


def _chain(node: Any) -> Chain:
    return Chain(Query("bench", Sink(node, node.relation, "OUT", "out", Format("KAFKA"), Format("JSON"))))


def _process(node: Any, work: Work) -> Process:
    chain = _chain(node)
    chain.feed("users", users(work))
    return lambda batch: chain.feed("purchases", batch)


def filter(work: Work) -> Process:
    """SELECT ITEM, AMOUNT * 2 FROM PURCHASES WHERE AMOUNT > 50"""
    large = Comparison(ty.BOOLEAN, Compare.GREATER, _AMOUNT, Literal(ty.INT, LEAST))
    doubled = Arithmetic(ty.INT, Op.MULTIPLY, _AMOUNT, Literal(ty.INT, 2))
    large_only = Filter(_source("purchases", _PURCHASES), _PURCHASES, large)
    return _process(
        Select(large_only, _PURCHASES, (NamedExpression("ITEM", _ITEM), NamedExpression("AMOUNT", doubled))), work
    )


def keyed_count(work: Work) -> Process:
    """SELECT USER, COUNT(*) FROM PURCHASES GROUP BY USER"""
    return _process(_counted(None), work)


def windowed_count(work: Work) -> Process:
    """SELECT USER, COUNT(*) FROM PURCHASES WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY USER"""
    size = timedelta(milliseconds=WINDOW_MS)
    return _process(_counted(Window(WindowKind.TUMBLING, size, size, grace=timedelta(0))), work)


def _counted(window: Window | None) -> Aggregate:
    count = AggregateCall("N", "COUNT", AGGREGATES["COUNT"].overloads[0], ())
    relation = _relation(Kind.TABLE, window, N=ty.BIGINT)
    return Aggregate(_source("purchases", _PURCHASES), relation, (NamedExpression("USER", _USER),), (count,))


def stream_table_join(work: Work) -> Process:
    """SELECT * FROM PURCHASES JOIN USERS ON PURCHASES.USER = USERS.USER"""
    joined = _relation(Kind.STREAM, ITEM=ty.STRING, AMOUNT=ty.INT, CITY=ty.STRING)
    return _process(
        StreamTableJoin(_source("purchases", _PURCHASES), _source("users", _USERS), joined, JoinKind.INNER), work
    )
