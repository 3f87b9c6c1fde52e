"""A link logs in once, within its time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from headrace.access.login_links import LINK_SECONDS, LoginLinks
from headrace.access.principal import LOCAL


def test_a_link_is_valid_once_even_for_two_at_the_same_time() -> None:
    links = LoginLinks()
    key = links.create(LOCAL)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: links.use(key), range(64)))
    assert [one for one in found if one is not None] == [LOCAL]


def test_a_link_ends_after_its_time() -> None:
    now = [100.0]
    links = LoginLinks(lambda: now[0])
    early, late = links.create(LOCAL), links.create(LOCAL)
    now[0] += LINK_SECONDS - 1
    assert links.use(early) == LOCAL
    now[0] += 2
    assert links.use(late) is None


def test_guessed_keys_are_refused_and_stored_keys_are_hashes() -> None:
    links = LoginLinks()
    key = links.create(LOCAL)
    assert [links.use(guess) for guess in ("", "x" * 43, key[:-1], f"{key}x", "\ud800")] == [None] * 5
    assert key not in repr(vars(links))
    assert links.use(key) == LOCAL


def test_a_new_link_replaces_the_oldest_when_there_are_too_many() -> None:
    links = LoginLinks()
    keys = [links.create(LOCAL) for _ in range(101)]
    assert links.use(keys[0]) is None
    assert [links.use(key) for key in keys[1:]] == [LOCAL] * 100
