"""The layout of the flow picture: sources are left of their queries, nothing is omitted, cycles terminate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.control.status import QueryStatus
from headrace.serve.console.poller import ServerSnapshot, TopicSnapshot
from headrace.serve.console.widgets.flow_layout import QUERY, TOPIC, NodeId, flow_edges, layout_flow

NAMES = st.sampled_from([f"t{i}" for i in range(6)])


def moment(queries: list[tuple[list[str], str]], topics: list[str]) -> ServerSnapshot:
    known = {name: TopicSnapshot(name, 1, 0, 0.0) for name in topics}
    conditions = [
        QueryStatus(f"q{number}", "", sink, sink, sources, "running") for number, (sources, sink) in enumerate(queries)
    ]
    return ServerSnapshot(0.0, known, conditions)


@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), NAMES), max_size=6), st.lists(NAMES, max_size=6))
def test_every_box_is_drawn_once_without_overlap(queries: list[tuple[list[str], str]], topics: list[str]) -> None:
    now = moment(queries, topics)
    drawn = layout_flow(now)
    ids = [box.id for box in drawn.boxes]
    assert len(set(ids)) == len(ids)
    assert len({(box.x, box.y) for box in drawn.boxes}) == len(ids)
    named = {NodeId(TOPIC, name) for name in topics} | {id for line in flow_edges(now) for id in line}
    assert set(ids) == named
    assert all(0 <= box.x < drawn.width and 0 <= box.y < drawn.height for box in drawn.boxes)


@given(st.integers(1, 5), st.integers(1, 3))
def test_sources_are_left_of_their_queries(length: int, branches: int) -> None:
    queries = [([f"t{i}"], f"t{i + 1}") for i in range(length)] + [(["t0"], f"b{i}") for i in range(branches)]
    drawn = layout_flow(moment(queries, []))
    places = {box.id: box.x for box in drawn.boxes}
    assert all(places[start] < places[end] for start, end in drawn.lines)


def test_a_cycle_of_queries_is_drawn() -> None:
    drawn = layout_flow(moment([(["a"], "b"), (["b"], "a")], []))
    assert {box.id for box in drawn.boxes} == {
        NodeId(TOPIC, "a"),
        NodeId(TOPIC, "b"),
        NodeId(QUERY, "q0"),
        NodeId(QUERY, "q1"),
    }
