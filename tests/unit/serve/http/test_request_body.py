from __future__ import annotations

import pytest

from headrace.errors import ServerBusy, TooManyRequests
from headrace.serve.http.request_body import BodyBudget

TOTAL = 1_000


def test_one_user_leaves_as_much_as_they_take() -> None:
    budget = BodyBudget(TOTAL)
    with budget.share("ann") as take, budget.share("ann") as more:
        take(300)
        more(200)
        with pytest.raises(TooManyRequests, match="of ann"):
            more(1)
        with budget.share("bob") as other:
            other(100)
            other(100)
            with pytest.raises(TooManyRequests, match="of bob"):
                other(100)
        take(-300)
        more(200)


def test_what_does_not_fit_is_refused() -> None:
    budget = BodyBudget(TOTAL)
    with budget.share("ann") as take, pytest.raises(ServerBusy):
        take(TOTAL + 1)


def test_what_was_taken_is_given_back() -> None:
    budget = BodyBudget(TOTAL)
    for _ in range(5):
        with budget.share("ann") as take:
            take(300)
            take(200)
