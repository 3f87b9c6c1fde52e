"""Users, roles and grants: concurrent changes, and reading them back."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest

from headrace.access.audit import Audit, read_audit
from headrace.access.grants import Grant, Privilege, ResourceType, source_resource, topic_resource
from headrace.access.principal import Principal
from headrace.access.users import TOPIC, UserStore
from headrace.clock import SystemClock
from headrace.contracts import Append
from headrace.errors import BadGrant, BadUserName, HeadraceError, UnknownRole, UnknownUser, UserExists
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

READ = Grant.of("read", "source", "ORDERS")


def _book(log: EmbeddedLog) -> UserStore:
    return UserStore(log, SystemClock(), Audit(log, SystemClock()))


def test_changes_are_read_back(log: EmbeddedLog) -> None:
    book = _book(log)
    book.add_user("alice", "a long password", ["reader"], by="local")
    book.add_user("bob", None, [], by="local")
    book.grant("clerks", READ, by="alice")
    book.set_roles("bob", ["clerks"], by="alice")
    book.remove_user("alice", by="bob")
    again = _book(log).state
    assert again == book.state
    assert set(again.users) == {"bob"}
    assert again.roles["clerks"] == (READ,)
    assert not again.has_admin
    assert "a long password" not in str([r.value for r in log.read(TOPIC, 0, 0).records()])
    assert [(e.action, e.principal) for e in read_audit(log)] == [
        ("user-added", "local"),
        ("user-added", "local"),
        ("granted", "alice"),
        ("roles-set", "alice"),
        ("user-removed", "bob"),
    ]
    assert "scrypt" not in str([e.details for e in read_audit(log)])


def test_the_quotas_of_a_user_end_with_the_user(log: EmbeddedLog) -> None:
    book = _book(log)
    book.add_user("bob", None, [], by="local")
    book.set_quota("bob", {"queries": 1}, by="local")
    assert _book(log).state.quotas == {"bob": {"queries": 1}}
    book.remove_user("bob", by="local")
    book.add_user("bob", None, [], by="local")
    assert _book(log).state.quotas == {}
    with pytest.raises(UnknownUser):
        book.set_quota("carol", {"queries": 1}, by="local")
    assert [entry.details for entry in read_audit(log) if entry.action == "quota-set"] == [
        {"user": "bob", "quota": {"queries": 1}}
    ]


def test_grants_that_an_earlier_version_stored_are_read(log: EmbeddedLog) -> None:
    grant = {"deed": "read", "kind": "topic", "pattern": "orders", "where": None}
    stored = {"version": 1, "id": "a", "did": "granted", "by": "local", "at": 0, "role": "clerks", "grant": grant}
    users = _book(log)
    log.append([Append(TOPIC, [Record(json.dumps(stored).encode())])])
    users.refresh()
    assert users.state.roles["clerks"] == (Grant(Privilege.READ, ResourceType.TOPIC, "orders"),)


def test_changes_of_another_process_are_seen_after_a_refresh(log: EmbeddedLog) -> None:
    book = _book(log)
    with EmbeddedLog(log.folder) as elsewhere:
        _book(elsewhere).add_user("alice", None, ["admin"], by="local")
    assert not book.state.users
    book.refresh()
    assert book.state.has_admin


def test_only_one_of_two_writers_adds_the_same_user(log: EmbeddedLog) -> None:
    first, second = _book(log), _book(log)
    first.add_user("alice", None, ["admin"], by="one")
    with pytest.raises(UserExists):
        second.add_user("alice", None, ["reader"], by="two")  # it does not know of the first yet
    for book in (first, second, _book(log)):
        book.refresh()
        assert book.state.users["alice"].roles == {"admin"}


def test_concurrent_changes_are_not_lost(log: EmbeddedLog) -> None:
    books = [_book(log) for _ in range(4)]
    told: list[str] = []

    def change(number: int) -> None:
        for at in range(10):
            books[number].grant("clerks", Grant.of("read", "topic", f"t{number}-{at}"), by="local")
            with suppress(UserExists):
                books[number].add_user(f"user{at}", None, [], by=str(number))
                told.append(f"user{at}")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = _book(log).state
    assert len(state.roles["clerks"]) == 40
    assert sorted(told) == sorted(state.users)  # each was added by exactly one


def test_changing_a_password_increments_the_generation(log: EmbeddedLog) -> None:
    book = _book(log)
    book.add_user("alice", "a long password", [], by="local")
    seen = [book.state.users["alice"].generation]
    book.set_password("alice", "another password", by="alice")
    seen.append(book.state.users["alice"].generation)
    book.sign_out("alice", by="local")
    seen.append(book.state.users["alice"].generation)
    book.set_roles("alice", ["reader"], by="local")
    assert book.state.users["alice"].generation == seen[-1]
    book.remove_user("alice", by="local")
    book.add_user("alice", "a long password", [], by="local")
    seen.append(book.state.users["alice"].generation)
    assert len(set(seen)) == 4


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "a b", "a\nb", "-x", "local", "nobody", "x" * 64, "a\0", "ä"])
def test_invalid_names_are_refused(log: EmbeddedLog, name: str) -> None:
    with pytest.raises(BadUserName):
        _book(log).add_user(name, None, [], by="local")
    with pytest.raises(BadUserName):
        _book(log).grant(name, READ, by="local")


def test_an_invalid_change_is_refused_and_not_written(log: EmbeddedLog) -> None:
    book = _book(log)
    for error, change in (
        (UnknownUser, lambda: book.remove_user("alice", by="local")),
        (UnknownRole, lambda: book.add_user("alice", None, ["kings"], by="local")),
        (UnknownRole, lambda: book.revoke("clerks", READ, by="local")),
        (BadGrant, lambda: book.grant("admin", READ, by="local")),
        (BadGrant, lambda: book.revoke("reader", Grant(Privilege.READ, READ.kind, "*"), by="local")),
    ):
        with pytest.raises(error):
            change()
    assert log.bounds(TOPIC)[0].end == 0


@pytest.mark.parametrize(
    "words",
    [
        ("eat", "source", "X"),
        ("read", "house", "X"),
        ("read", "source", ""),
        ("read", "source", "a*b"),
        ("read", "source", "**"),
        ("read", "topic", "x", "A = 1"),
        ("write", "source", "X", "A = 1"),
        ("read", "source", "X", "  "),
    ],
)
def test_invalid_grants_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadGrant):
        Grant.of(*words)


def test_built_in_roles_have_their_grants(log: EmbeddedLog) -> None:
    state = _book(log).state
    reader = state.rights(Principal("r", frozenset({"reader"})))
    writer = state.rights(Principal("w", frozenset({"writer"})))
    nobody = state.rights(Principal("n", frozenset({"gone"})))
    assert [one.may(Privilege.READ, topic_resource("x")) for one in (reader, writer, nobody)] == [True, True, False]
    assert [one.may(Privilege.WRITE, source_resource("X")) for one in (reader, writer, nobody)] == [False, True, False]
    with pytest.raises(HeadraceError):
        writer.check_admin("change access")
