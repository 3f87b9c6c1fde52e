"""Traits of plan nodes: declared with the class, or the class is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from headrace.plan import nodes as n
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.explain import tree
from headrace.plan.relations import Relation
from headrace.plan.steps import Batch, Context, Step
from headrace.plan.traits import Traits
from tests.ksql_strategies import planned


def test_a_node_without_traits_is_refused_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match="plan node Sample declares no traits"):

        class Sample(n.Node):
            pass


@dataclass(frozen=True)
class EverySecond(n.Node, traits=Traits(stateful=True, timed=False, realtime=False, single_key_group=True)):
    """Every second row of a stream: a kind of node that only this test knows."""

    input: n.Node
    relation: Relation


class EverySecondStep:
    def __init__(self, context: Context) -> None:
        self._seen = context.store("seen")

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        for event in batch:
            count = self._seen.get("count", 0) + 1
            self._seen["count"] = count
            out += [event] if count % 2 == 0 else []
        return out


@step_of(EverySecond, old_from=NEVER)
def every_second(node: EverySecond, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del node, old, inputs
    return EverySecondStep(context)


def test_a_custom_node_is_explained_and_runs_in_memory() -> None:
    query = planned("CREATE STREAM O AS SELECT ID, A FROM S;")
    select = query.sink.input
    relation = vars(select)["relation"]
    sink = n.Sink(**{**vars(query.sink), "input": EverySecond(select, relation)})
    sampled = n.Query(query.id, sink)
    assert "every-second -> stream" in tree(sampled)
    stores: dict[str, dict[object, object]] = {}
    pipeline = Pipeline(sampled, Context(lambda name: stores.setdefault(name, {}), lambda problem: None))
    records = [("s", RawRecord(b"1", b'{"A": %d}' % n, n)) for n in range(5)]
    assert [record.time for record in pipeline.run(records)] == [1, 3]
    assert stores["everysecond-0/seen"] == {"count": 5}
