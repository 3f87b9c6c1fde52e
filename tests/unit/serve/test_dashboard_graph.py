"""The picture of what flows where: nothing stands left of what it reads, nothing is left out, circles end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.control.condition import Condition
from headrace.serve.dashboard.graph import QUERY, TOPIC, Id, lines_of, picture
from headrace.serve.dashboard.pulse import Moment, TopicNow

NAMES = st.sampled_from([f"t{i}" for i in range(6)])


def moment(queries: list[tuple[list[str], str]], topics: list[str]) -> Moment:
    known = {name: TopicNow(name, 1, 0, 0.0) for name in topics}
    conditions = [
        Condition(f"q{number}", "", sink, sink, sources, "running") for number, (sources, sink) in enumerate(queries)
    ]
    return Moment(0.0, known, conditions)


@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), NAMES), max_size=6), st.lists(NAMES, max_size=6))
def test_every_box_is_there_once_and_none_on_another(queries: list[tuple[list[str], str]], topics: list[str]) -> None:
    now = moment(queries, topics)
    drawn = picture(now)
    ids = [box.id for box in drawn.boxes]
    assert len(set(ids)) == len(ids)
    assert len({(box.x, box.y) for box in drawn.boxes}) == len(ids)
    named = {Id(TOPIC, name) for name in topics} | {id for line in lines_of(now) for id in line}
    assert set(ids) == named
    assert all(0 <= box.x < drawn.width and 0 <= box.y < drawn.height for box in drawn.boxes)


@given(st.integers(1, 5), st.integers(1, 3))
def test_what_is_read_stands_to_the_left(length: int, branches: int) -> None:
    queries = [([f"t{i}"], f"t{i + 1}") for i in range(length)] + [(["t0"], f"b{i}") for i in range(branches)]
    drawn = picture(moment(queries, []))
    places = {box.id: box.x for box in drawn.boxes}
    assert all(places[start] < places[end] for start, end in drawn.lines)


def test_queries_that_feed_each_other() -> None:
    drawn = picture(moment([(["a"], "b"), (["b"], "a")], []))
    assert {box.id for box in drawn.boxes} == {Id(TOPIC, "a"), Id(TOPIC, "b"), Id(QUERY, "q0"), Id(QUERY, "q1")}
