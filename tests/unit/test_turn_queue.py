"""Tests for headrace.turn_queue: a model of lists, and the order of turns."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.turn_queue import TurnQueue

ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30)


def taken(queue: TurnQueue[int]) -> list[tuple[str, int]]:
    order: list[tuple[str, int]] = []
    while (user := queue.next_user()) is not None:
        order.append((user, queue.take(user)))
    return order


@given(ITEMS)
def test_each_user_gets_its_items_in_their_order_and_one_in_each_round(items: list[tuple[str, int]]) -> None:
    queue = TurnQueue[int]()
    for user, item in items:
        queue.add(user, item)
    assert (len(queue), bool(queue)) == (len(items), bool(items))
    order = taken(queue)
    for user in "abc":
        assert [item for name, item in order if name == user] == [item for name, item in items if name == user]
    counts, waiting = Counter[str](), Counter(user for user, _ in items)
    for user, _ in order:  # nobody is ahead of a user who still waits by more than one turn
        counts[user] += 1
        assert all(counts[user] <= counts[other] + 1 for other in waiting if counts[other] < waiting[other])


@given(ITEMS, st.integers(0, 9))
def test_a_discarded_item_is_gone_and_a_missing_one_changes_nothing(items: list[tuple[str, int]], item: int) -> None:
    queue = TurnQueue[int]()
    for user, one in items:
        queue.add(user, one)
    queue.discard("a", item)
    own = [one for user, one in items if user == "a"]
    if item in own:
        own.remove(item)
    assert queue.count("a") == len(own)
    assert [one for user, one in taken(queue) if user == "a"] == own


def test_users_who_may_not_take_a_turn_keep_their_place() -> None:
    queue = TurnQueue[int]()
    for user, item in (("a", 1), ("b", 2), ("a", 3)):
        queue.add(user, item)
    assert queue.next_user(lambda user: user != "a") == "b"
    assert queue.next_user(lambda user: False) is None
    assert taken(queue) == [("a", 1), ("b", 2), ("a", 3)]
