"""Failed log-ins slow down further attempts, but lock no user out for long."""

from __future__ import annotations

from contextlib import suppress

from headrace.access.throttle import FREE_ATTEMPTS, LoginThrottle
from headrace.errors import LoginThrottled


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _guesses_in(seconds: float, tries: LoginThrottle, clock: Clock, *, addresses: int = 1) -> int:
    """How many passwords an attacker who never waits longer than necessary can try."""
    end, done = clock.now + seconds, 0
    while clock.now < end:
        try:
            with tries.one("alice", f"10.0.0.{done % addresses}"):
                done += 1
        except LoginThrottled as error:
            clock.now += max(error.seconds, 0.001)
    return done


def test_guessing_is_slow_from_one_address_and_from_many_addresses() -> None:
    assert _guesses_in(3600, LoginThrottle(clock := Clock()), clock) <= FREE_ATTEMPTS + 75
    assert _guesses_in(3600, LoginThrottle(clock := Clock()), clock, addresses=200) <= FREE_ATTEMPTS + 1000


def test_the_addresses_of_one_network_guess_no_faster_than_one_address() -> None:
    clock, users = Clock(), 0
    tries, end = LoginThrottle(clock), clock.now + 3600
    done = 0
    while clock.now < end:
        try:
            with tries.one(f"user{users}", f"2001:db8::{done % 5000:x}"):
                done, users = done + 1, users + 1
        except LoginThrottled as error:
            clock.now += max(error.seconds, 0.001)
    assert done <= FREE_ATTEMPTS + 75


def test_concurrent_attempts_are_no_faster() -> None:
    tries, begun = LoginThrottle(Clock()), 0
    open_tries = []
    for _ in range(100):
        attempt = tries.one("alice", "10.0.0.1")
        try:
            attempt.__enter__()
        except LoginThrottled:
            continue
        open_tries.append(attempt)  # none of them has ended
        begun += 1
    assert begun == FREE_ATTEMPTS


def test_the_real_user_logs_in_within_seconds() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    _guesses_in(3600, tries, clock, addresses=200)
    waited = 0.0
    while True:
        try:
            with tries.one("alice", "192.0.2.7") as right:
                right()
                break
        except LoginThrottled as error:
            waited += error.seconds
            clock.now += error.seconds
    assert waited <= 5
    for _ in range(50):  # who knows the password is not slowed down
        with tries.one("alice", "192.0.2.7") as right:
            right()


def test_attackers_cannot_lock_out_a_user_from_a_known_address() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    with tries.one("alice", "192.0.2.7") as right:
        right()
    for _ in range(100):
        _guesses_in(1, tries, clock, addresses=200)
        with tries.one("alice", "192.0.2.7") as right:
            right()
        clock.now += 1
    guesses = 0
    with suppress(LoginThrottled):  # who guesses from there is slowed down by the address
        for _ in range(100):
            with tries.one("alice", "192.0.2.7"):
                guesses += 1
    assert guesses <= FREE_ATTEMPTS


def test_logging_in_with_another_account_gives_no_more_guesses() -> None:
    """Somebody with an account of their own guesses that of another, and logs in in between."""
    tries, guesses = LoginThrottle(Clock()), 0
    with suppress(LoginThrottled):
        for number in range(1000):
            with tries.one(f"victim{number}", "10.0.0.1"):
                guesses += 1
            with tries.one("mallory", "10.0.0.1") as right:
                right()
    assert guesses <= FREE_ATTEMPTS


def test_an_attacker_behind_a_shared_proxy_does_not_lock_out_its_known_users() -> None:
    clock = Clock()
    tries = LoginThrottle(clock)
    with tries.one("alice", "127.0.0.1") as right:
        right()
    for number in range(200):
        with suppress(LoginThrottled), tries.one(f"other{number}", "127.0.0.1"):
            pass
        with tries.one("alice", "127.0.0.1") as right:
            right()
