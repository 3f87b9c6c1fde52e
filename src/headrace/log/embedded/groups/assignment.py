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
    chosen: dict[TopicPartition, str] = {}
    loads = dict.fromkeys(sorted(members), 0)
    wanted = sorted(partitions)
    for partition in wanted:
        owner = current.get(partition)
        if owner is not None and owner in members and partition.topic in members[owner]:
            chosen[partition] = owner
            loads[owner] += 1
    for partition in wanted:
        if partition not in chosen and (owner := _least(loads, members, partition.topic)):
            chosen[partition] = owner
            loads[owner] += 1
    while move := _improvement(chosen, loads, members):
        partition, owner = move
        loads[chosen[partition]] -= 1
        loads[owner] += 1
        chosen[partition] = owner
    return chosen


def _least(loads: Mapping[str, int], members: Mapping[str, frozenset[str]], topic: str) -> str | None:
    return min((m for m in loads if topic in members[m]), key=lambda m: loads[m], default=None)


def _improvement(
    chosen: Mapping[TopicPartition, str], loads: Mapping[str, int], members: Mapping[str, frozenset[str]]
) -> tuple[TopicPartition, str] | None:
    for partition, owner in sorted(chosen.items(), reverse=True):
        other = _least(loads, members, partition.topic)
        if other is not None and loads[other] + 2 <= loads[owner]:
            return partition, other
    return None
