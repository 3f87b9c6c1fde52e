"""The mailbox between processes: posts, replies, and who wakes up when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.log.embedded.commit.mailbox import DONE, EMPTY, POSTED, REFUSED, TAKEN, Mailbox

PARTS = [("t", 1, 1, 0, None, [(b"value", None)])]
LONG = 30.0  # seconds; a wait that lasts so long has missed its ring


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Mailbox, Mailbox]]:
    """One that leads, and one that posts."""
    boxes = Mailbox(tmp_path, "leader"), Mailbox(tmp_path, "poster")
    yield boxes
    for box in boxes:
        box.close()


def test_a_post_is_taken_and_gets_a_reply(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    assert poster.post(PARTS) == 1
    (post,) = leader.collect()
    assert (post.owner, post.number, post.parts, poster.state) == ("poster", 1, PARTS, TAKEN)
    assert leader.collect() == []
    leader.answer(post, [7])
    assert (poster.state, poster.reply(), poster.state) == (DONE, [7], EMPTY)


def test_a_refused_post_has_no_offsets(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    poster.post(PARTS)
    (post,) = leader.collect()
    leader.answer(post, None)
    assert (poster.state, poster.reply()) == (REFUSED, None)


def test_a_withdrawn_post_gets_no_reply(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    poster.post(PARTS)
    (post,) = leader.collect()
    poster.clear_post()
    assert not leader.holds(post)
    poster.post(PARTS)
    leader.answer(post, [7])  # of the post before
    assert poster.state == POSTED


def test_an_oversized_post_is_refused(pair: tuple[Mailbox, Mailbox]) -> None:
    assert pair[1].post([("t", 1, 1, 0, None, [(b"v" * 20_000, None)])]) is None
    assert pair[1].state == EMPTY


def test_one_process_leads_and_others_see_it(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    assert not poster.has_leader
    assert leader.try_lead()
    assert poster.has_leader
    assert not poster.try_lead()
    leader.step_down()
    assert not poster.has_leader
    assert poster.try_lead()
    poster.step_down()


def test_a_reply_wakes_its_poster(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    assert leader.try_lead()
    poster.post(PARTS)
    (post,) = leader.collect()
    woken = _waiter(poster, TAKEN, has_leader=True)
    leader.answer(post, [7])
    leader.step_down()
    assert woken.wait(LONG / 2)


def test_a_poster_wakes_up_when_the_leader_steps_down(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    assert leader.try_lead()
    poster.post(PARTS)
    woken = _waiter(poster, POSTED, has_leader=True)
    leader.step_down()
    assert woken.wait(LONG / 2)


def test_a_signal_between_checking_and_sleeping_is_not_missed(pair: tuple[Mailbox, Mailbox]) -> None:
    leader, poster = pair
    assert leader.try_lead()
    ring = poster.ring
    leader.step_down()
    poster.post(PARTS)  # too late to be seen by the leader
    poster.wait(ring, LONG)
    assert not poster.has_leader


@pytest.mark.parametrize("back", [False, True])
def test_a_leader_waits_for_the_members_of_the_last_group(
    pair: tuple[Mailbox, Mailbox], monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    leader, poster = pair
    slept: list[float] = []
    monkeypatch.setattr("headrace.log.embedded.commit.mailbox._GATHER_TIME", 1_000_000)
    monkeypatch.setattr("time.sleep", lambda seconds: slept.append(seconds) or poster.post(PARTS))  # type: ignore[func-returns-value]
    assert leader.try_lead()
    leader.step_down()
    leader.gather()
    assert not slept  # nobody was there
    poster.post(PARTS)
    assert leader.try_lead()
    (post,) = leader.collect()
    leader.answer(post, [1])
    leader.step_down()
    poster.reply()
    if back:
        poster.post(PARTS)
    leader.gather()
    assert len(slept) == (0 if back else 1)


def _waiter(poster: Mailbox, state: int, has_leader: bool) -> threading.Event:
    """A thread that sleeps while nothing has changed, as the committer does."""
    woken, ready = threading.Event(), threading.Event()

    def sleep() -> None:
        ring = poster.ring
        ready.set()
        while poster.state == state and poster.has_leader == has_leader:
            poster.wait(ring, LONG)
            ring = poster.ring
        woken.set()

    threading.Thread(target=sleep, daemon=True).start()
    assert ready.wait(LONG)
    return woken
