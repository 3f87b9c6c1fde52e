from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from headrace.fair_share import exceeds_share


def take_all(held: Counter[str], user: str, total: int) -> None:
    """Take one after another, until one is refused."""
    while held.total() < total and not exceeds_share(held[user], held.total(), total):
        held[user] += 1


@pytest.mark.parametrize(("users", "each"), [(1, 500), (2, 333), (3, 250), (9, 100)])
def test_users_who_take_what_they_get_have_equal_shares(users: int, each: int) -> None:
    held, total = Counter[str](), 1_000
    while held.total() < total:
        before = held.total()
        for user in map(str, range(users)):
            if not exceeds_share(held[user], held.total(), total):
                held[user] += 1
        if held.total() == before:
            break
    assert all(abs(count - each) <= 1 for count in held.values())


@given(lists(integers(0, 4), max_size=40), integers(6, 1_000))
def test_one_who_comes_late_always_finds_room(greedy: list[int], total: int) -> None:
    held = Counter[str]()
    for user in greedy:
        take_all(held, str(user), total)
    assert held.total() < total
    assert not exceeds_share(0, held.total(), total)


def test_a_total_of_one_can_be_used() -> None:
    assert not exceeds_share(0, 0, 1)
