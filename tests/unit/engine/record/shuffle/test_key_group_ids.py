"""Key groups are distributed over tasks."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.engine.record.shuffle.key_group_ids import key_group_ids, spark_hash


@pytest.mark.parametrize("key_groups", [1, 2, 3, 8, 100])
def test_key_groups_have_distinct_ids(key_groups: int) -> None:
    assert len(set(key_group_ids(key_groups))) == len(key_group_ids(key_groups)) == key_groups


@pytest.mark.parametrize("tasks", [2, 4, 8])
def test_every_task_has_the_same_number_of_key_groups(tasks: int) -> None:
    assert set(Counter(spark_hash(number) % tasks for number in key_group_ids(8)).values()) == {8 // tasks}
