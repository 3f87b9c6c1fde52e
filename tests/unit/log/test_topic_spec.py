"""Validation of topic specs, and their stored text."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.errors import BadTopicOption, IncompatibleSchema
from headrace.log.topic_spec import altered_spec, check_spec, parse_spec, spec_text
from headrace.schema import RAW, Schema
from headrace.settings import Size

sizes = st.none() | st.integers(1, 1 << 40).map(Size)
specs = st.builds(
    TopicSpec,
    partitions=st.integers(1, 100),
    schema=st.sampled_from([RAW, Schema.parse("id bigint key, name string default 'it''s'")]),
    partitioner=st.sampled_from(["hash", "round-robin", "priority:p"]),
    retention_time=st.none() | st.integers(1, 10**10).map(lambda ms: timedelta(milliseconds=ms)),
    retention_bytes=sizes,
    archive=st.booleans(),
    compact=st.booleans(),
    tombstone_time=st.integers(0, 10**10).map(lambda ms: timedelta(milliseconds=ms)),
    quota_bytes=sizes,
    max_record_bytes=st.integers(1, 1 << 30).map(Size),
    replication=st.integers(1, 3),
)


@given(specs)
def test_the_text_is_read_back(spec: TopicSpec) -> None:
    again = parse_spec(spec_text(spec))
    assert again == spec
    assert all(type(getattr(again, n)) is type(getattr(spec, n)) for n in vars(spec))


def test_missing_options_have_defaults_and_unknown_ones_are_ignored() -> None:
    stored = json.loads(spec_text(TopicSpec(partitions=3)))
    del stored["quota_bytes"]
    stored["colour"] = "red"
    assert parse_spec(json.dumps(stored)) == TopicSpec(partitions=3)


@pytest.mark.parametrize(
    "changes", [{"partitions": 1}, {"replication": 3}, {"colour": 1}, {"archive": True}, {"partitioner": "no"}]
)
def test_impossible_changes_are_refused(changes: dict) -> None:
    with pytest.raises(BadTopicOption):
        altered_spec(Topic("t", TopicSpec(partitions=2), 0), changes)


def test_a_topic_cannot_change_between_raw_and_typed() -> None:
    typed = Schema.parse("key bytes key, value bytes, more int")
    for old, new in ((RAW, typed), (typed, RAW)):
        with pytest.raises(IncompatibleSchema, match="raw and typed"):
            altered_spec(Topic("t", TopicSpec(schema=old), 0), {"schema": new})


def test_limits_can_be_removed() -> None:
    topic = Topic("t", TopicSpec(retention_bytes=Size(5)), 0)
    assert altered_spec(topic, {"retention_bytes": None}).retention_bytes is None
    check_spec(TopicSpec(archive=True, retention_bytes=Size(5)))
