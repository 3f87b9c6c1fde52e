"""Partitions are assigned evenly to subscribed members, and stay where they are if possible."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import TopicPartition
from headrace.log.embedded.groups.assignment import assign

TOPICS = ["a", "b", "c"]
members = st.dictionaries(st.sampled_from("xyzw"), st.frozensets(st.sampled_from(TOPICS)), max_size=4)
partitions = st.sets(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 4)))


@given(members, partitions, st.data())
def test_every_subscribed_partition_is_assigned_once_and_evenly(members, partitions, data) -> None:
    current = data.draw(st.dictionaries(st.sampled_from(sorted(partitions) or [None]), st.sampled_from("xyzwq")))
    chosen = assign(members, partitions, current)
    assert set(chosen) == {p for p in partitions if any(p.topic in topics for topics in members.values())}
    assert all(p.topic in members[m] for p, m in chosen.items())
    loads = Counter(dict.fromkeys(members, 0))
    loads.update(chosen.values())
    for partition, member in chosen.items():
        for other in members:
            assert partition.topic not in members[other] or loads[member] - loads[other] <= 1
    assert assign(members, partitions, chosen) == chosen  # nothing moves without need


def test_a_new_member_takes_only_its_share() -> None:
    partitions = [TopicPartition("a", i) for i in range(6)]
    before = assign({"x": frozenset("a"), "y": frozenset("a")}, partitions, {})
    after = assign({m: frozenset("a") for m in "xyz"}, partitions, before)
    assert Counter(after.values()) == {"x": 2, "y": 2, "z": 2}
    assert sum(before[p] != after[p] for p in partitions) == 2
