"""Administration of consumer groups: members, positions, resetting offsets."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.contracts import INTERNAL_PREFIX, GroupInfo, Member, TopicPartition
from headrace.errors import GroupNotEmpty, UnknownGroup
from headrace.log.kafka.client import ATTEMPT_TIMEOUT, REQUEST_TIMEOUT, Client, retry_on_election
from headrace.log.kafka.reader import Reader
from headrace.log.kafka.topics import Topics
from headrace.log.topic_spec import unknown_group

_SECONDS = REQUEST_TIMEOUT.total_seconds()
_TRY = ATTEMPT_TIMEOUT.total_seconds()
_UNKNOWN_GENERATION = -1  # Kafka does not expose it to non-members


class Groups:
    """The groups of a Kafka cluster."""

    def __init__(self, client: Client, topics: Topics, reader: Reader) -> None:
        self._client = client
        self._topics = topics
        self._reader = reader

    @retry_on_election
    def names(self) -> list[str]:
        listing = self._client.answer(self._client.admin.list_consumer_groups(request_timeout=_TRY))
        for error in listing.errors:
            raise self._client.translate(error)
        return sorted(g.group_id for g in listing.valid)

    def info(self, name: str) -> GroupInfo:
        members = self._members(name)
        offsets = self._offsets(name)
        if not members and not offsets and name not in (known := self.names()):
            raise unknown_group(name, known)
        return GroupInfo(name, _UNKNOWN_GENERATION, members, offsets, self._reader.lag(offsets))

    def reset(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        for tp, offset in offsets.items():
            self._reader.check_offset(tp, offset)
        members = self._members(name)
        if members:
            raise _busy(name, len(members))
        positions = [KafkaPartition(*tp, offset) for tp, offset in offsets.items()]
        request = self._client.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, positions)], request_timeout=_SECONDS
        )
        done = self._client.answer(request[name], f'group "{name}"')
        for place in done.topic_partitions:
            if place.error is not None:
                raise self._client.translate(place.error, f'group "{name}"')

    def delete(self, name: str) -> None:
        members = self._members(name)
        if members:
            raise _busy(name, len(members))
        request = self._client.admin.delete_consumer_groups([name], request_timeout=_SECONDS)
        try:
            self._client.answer(request[name], f'group "{name}"')
        except UnknownGroup:
            raise unknown_group(name, self.names()) from None

    @retry_on_election
    def _members(self, name: str) -> tuple[Member, ...]:
        request = self._client.admin.describe_consumer_groups([name], request_timeout=_TRY)
        try:
            description = self._client.answer(request[name], f'group "{name}"')
        except UnknownGroup:
            return ()
        if description.state == ConsumerGroupState.DEAD:
            return ()
        return tuple(
            Member(
                member.member_id,
                member.client_id,
                tuple(sorted(TopicPartition(p.topic, p.partition) for p in member.assignment.topic_partitions)),
            )
            for member in sorted(description.members, key=lambda m: m.member_id)
        )

    @retry_on_election
    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        request = self._client.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=_TRY
        )
        try:
            response = self._client.answer(request[name], f'group "{name}"')
        except UnknownGroup:
            return {}
        partitions = {topic.name: topic.partitions for topic in self._topics.all()} if response.topic_partitions else {}
        return {
            TopicPartition(p.topic, p.partition): p.offset
            for p in sorted(response.topic_partitions, key=lambda p: (p.topic, p.partition))
            if p.offset >= 0 and p.partition < partitions.get(p.topic, 0) and not p.topic.startswith(INTERNAL_PREFIX)
        }


def _busy(name: str, members: int) -> GroupNotEmpty:
    return GroupNotEmpty(f'group "{name}" has {members} active members', fix="stop them first")
