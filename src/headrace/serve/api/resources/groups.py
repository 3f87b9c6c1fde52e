"""Consumer groups: their offsets and lag; resetting and deleting groups that have no members."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.access.grants import Privilege, Resource, ResourceType
from headrace.contracts import GroupInfo, TopicPartition
from headrace.errors import BadRequest
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.positions import parse_positions, start_positions
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, RequiredPrivilege, Route


@dataclass(frozen=True)
class GroupSummary:
    name: str
    members: int
    partitions: int
    lag: int


@dataclass(frozen=True)
class CommittedOffset:
    """A committed offset. `lag` is the number of records after it; `member` is the current owner of the partition."""

    topic: str
    partition: int
    offset: int
    lag: int
    member: str | None


@dataclass(frozen=True)
class GroupMember:
    id: str
    client: str


@dataclass(frozen=True)
class GroupDescription:
    name: str
    generation: int
    lag: int
    members: list[GroupMember]
    offsets: list[CommittedOffset]


@dataclass(frozen=True, kw_only=True)
class GroupRequest:
    group: str = in_path("The group's name.")


@dataclass(frozen=True, kw_only=True)
class ResetOffsetsRequest(GroupRequest):
    to: str = in_body("Where to: beginning, end, a time, -10m, or positions like orders/0:120.")
    topics: list[str] = in_body("Only these; by default all of which the group has offsets.", ())


def list_groups(context: RequestContext) -> list[GroupSummary]:
    """List all consumer groups, with their lag."""
    names = [
        name for name in context.log.groups() if context.rights.may(Privilege.READ, Resource(ResourceType.GROUP, name))
    ]
    return [_summary(context.log.group(name)) for name in names]


def get_group(context: RequestContext, params: GroupRequest) -> GroupDescription:
    """Get a group's members, committed offsets and lag."""
    return _described(context.log.group(params.group))


def reset_group(context: RequestContext, params: ResetOffsetsRequest) -> GroupDescription:
    """Reset a group's offsets. It must have no members; a group that does not exist is created."""
    context.log.reset_group(params.group, _offsets(context, params))
    return _described(context.log.group(params.group))


def delete_group(context: RequestContext, params: GroupRequest) -> None:
    """Delete a group with its offsets. It must have no members."""
    context.log.delete_group(params.group)


def _offsets(context: RequestContext, params: ResetOffsetsRequest) -> dict[TopicPartition, int]:
    if "/" in params.to:
        return parse_positions(params.to)
    topics = params.topics
    if not topics:
        topics = sorted({place.topic for place in context.log.group(params.group).offsets})
    offsets = {place: at for topic in topics for place, at in start_positions(context.log, topic, params.to).items()}
    if not offsets:
        raise BadRequest(f'group "{params.group}" has no offsets yet', fix='set "topics"')
    return offsets


def _summary(info: GroupInfo) -> GroupSummary:
    return GroupSummary(info.name, len(info.members), len(info.offsets), sum(info.lag.values()))


def _described(info: GroupInfo) -> GroupDescription:
    owners = {place: member.id for member in info.members for place in member.assignment}
    offsets = [CommittedOffset(*p, at, info.lag.get(p, 0), owners.get(p)) for p, at in sorted(info.offsets.items())]
    members = [GroupMember(member.id, member.client) for member in info.members]
    return GroupDescription(info.name, info.generation, sum(info.lag.values()), members, offsets)


_CONTROL = RequiredPrivilege(Privilege.CONTROL, ResourceType.GROUP, "group")
ROUTES = (
    Route("GET", "/groups", list_groups, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route(
        "GET",
        "/groups/{group}",
        get_group,
        needs=RequiredPrivilege(Privilege.READ, ResourceType.GROUP, "group"),
        work=WorkClass.ADMINISTRATION,
    ),
    Route("POST", "/groups/{group}/reset", reset_group, needs=_CONTROL, work=WorkClass.ADMINISTRATION),
    Route("DELETE", "/groups/{group}", delete_group, 204, needs=_CONTROL, work=WorkClass.ADMINISTRATION),
)
