"""Ids of key groups, chosen so that Spark spreads them evenly over its tasks.

Spark assigns a key group to a task by the hash of its id: with two tasks, ids 0 and 1 would both go to the same one.
State belongs to a key group's id, so these must never change, whatever the number of tasks is.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

_TASKS = 64  # the spread is even for task counts that divide it
_WORD = 0xFFFFFFFF


@lru_cache
def key_group_ids(key_groups: int) -> tuple[int, ...]:
    """This many ids; consecutive ones go to consecutive tasks. A single key group has id 0."""
    ids: list[int] = []
    for key_group in range(key_groups if key_groups > 1 else 0):
        fitting = (number for number in count() if spark_hash(number) % _TASKS == key_group % _TASKS)
        ids.append(next(number for number in fitting if number not in ids))
    return tuple(ids) or (0,)


def spark_hash(number: int) -> int:
    """Spark's hash of an INT, as in its shuffle: Murmur3 of four bytes, with Spark's seed."""
    word = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(42 ^ word, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
