"""What a set of grants allows, compared with plain sets of the names that they match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Grant, Privilege, Resource, ResourceType, source_resource, topic_resource
from headrace.access.principal import Principal
from headrace.errors import NotAllowed, RowsHidden

NAMES = ["A", "AB", "B", "A.dead", "AB.dead", "*"]
PATTERNS = ["A", "AB", "B", "A*", "AB*", "A.dead", "*"]
ALICE = Principal("alice", frozenset({"clerks"}))
_words = st.tuples(
    st.sampled_from(Privilege), st.sampled_from(ResourceType), st.sampled_from(PATTERNS), st.none() | st.just("X = 1")
)
_grants = st.lists(
    _words.map(lambda w: Grant(*w[:3], w[3] if w[:2] == (Privilege.READ, ResourceType.SOURCE) else None)), max_size=6
)


def _named(pattern: str, kind: ResourceType) -> set[str]:
    """The oracle: which of all names a pattern stands for."""
    if pattern == "*":
        return set(NAMES)
    if not pattern.endswith("*"):
        return {pattern} & set(NAMES)
    begun = {name for name in NAMES if name[: len(pattern) - 1] == pattern[:-1]}
    return {name for name in begun if kind is not ResourceType.TOPIC or not name.endswith(".dead")}


@given(_grants)
def test_only_granted_actions_are_allowed(grants: list[Grant]) -> None:
    rights = Rights(ALICE, grants)
    allowed = {(g.privilege, g.kind, name) for g in grants if g.where is None for name in _named(g.pattern, g.kind)}
    for deed in Privilege:
        for kind in ResourceType:
            for name in NAMES:
                assert rights.may(deed, Resource(kind, name)) == ((deed, kind, name) in allowed)


@given(_grants, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_row_filters_of_several_grants_are_alternatives(grants: list[Grant], name: str, of: str) -> None:
    rights = Rights(ALICE, grants)
    mine = [
        g
        for g in grants
        if g.privilege is Privilege.READ and g.kind is ResourceType.SOURCE and name in _named(g.pattern, g.kind)
    ]
    behind = [
        g
        for g in grants
        if g.privilege is Privilege.READ and g.kind is ResourceType.TOPIC and of in _named(g.pattern, g.kind)
    ]
    every = bool(behind) or any(g.where is None for g in mine)
    assert rights.sees_all(name, of) == every
    assert rights.sees(name, of) == (every or bool(mine))
    if rights.sees(name, of):
        assert rights.rows(name, of) == (() if every else ("X = 1",))
    else:
        with pytest.raises(NotAllowed):
            rights.rows(name, of)


def test_a_row_filter_does_not_allow_a_persistent_query() -> None:
    rights = Rights(
        ALICE, [Grant.of("read", "source", "ORDERS", "A = 1"), Grant.of("read", "source", "ORDERS", "B = 2")]
    )
    assert rights.rows("ORDERS", "orders") == ("A = 1", "B = 2")
    with pytest.raises(RowsHidden):
        rights.check_all("ORDERS", "orders")
    assert not rights.may(Privilege.READ, source_resource("ORDERS"))
    assert not rights.may(Privilege.READ, topic_resource("orders"))


def test_a_refusal_names_the_missing_grant_and_the_command_that_grants_it() -> None:
    with pytest.raises(NotAllowed) as refused:
        Rights(ALICE).check(Privilege.WRITE, topic_resource("orders"))
    assert refused.value.what == 'alice may not write topic "orders"'
    assert refused.value.fix == "ask an admin to grant it: headrace role grant ROLE write topic 'orders'"
    ALL_RIGHTS.check(Privilege.WRITE, topic_resource("orders"))
