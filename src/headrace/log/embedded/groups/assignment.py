"""Partition assignment: balanced, moving as few partitions as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.contracts import TopicPartition


def assign(
    members: Mapping[str, frozenset[str]],
    partitions: Iterable[TopicPartition],
    current: Mapping[TopicPartition, str],
) -> dict[TopicPartition, str]:
    """Assign each partition to one of the members that subscribe to its topic (`members`: id to topics).

    A member keeps its partition unless another eligible member has at least two fewer.
    """
    assigned: dict[TopicPartition, str] = {}
    loads = dict.fromkeys(sorted(members), 0)
    sorted_partitions = sorted(partitions)
    for partition in sorted_partitions:
        owner = current.get(partition)
        if owner is not None and owner in members and partition.topic in members[owner]:
            assigned[partition] = owner
            loads[owner] += 1
    for partition in sorted_partitions:
        if partition not in assigned and (owner := _least(loads, members, partition.topic)):
            assigned[partition] = owner
            loads[owner] += 1
    while move := _improvement(assigned, loads, members):
        partition, owner = move
        loads[assigned[partition]] -= 1
        loads[owner] += 1
        assigned[partition] = owner
    return assigned


def _least(loads: Mapping[str, int], members: Mapping[str, frozenset[str]], topic: str) -> str | None:
    return min((m for m in loads if topic in members[m]), key=lambda m: loads[m], default=None)


def _improvement(
    assigned: Mapping[TopicPartition, str], loads: Mapping[str, int], members: Mapping[str, frozenset[str]]
) -> tuple[TopicPartition, str] | None:
    for partition, owner in sorted(assigned.items(), reverse=True):
        other = _least(loads, members, partition.topic)
        if other is not None and loads[other] + 2 <= loads[owner]:
            return partition, other
    return None
