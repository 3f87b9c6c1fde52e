"""Consumer groups: how far each has come, and moving one that nobody is in."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.access.grants import Deed, Kind, Thing
from headrace.contracts import GroupInfo, TopicPartition
from headrace.errors import BadRequest
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.positions import positions_of, starts
from headrace.serve.api.route import Be, May, Route
from headrace.serve.api.site import Site


@dataclass(frozen=True)
class Listed:
    name: str
    members: int
    partitions: int
    lag: int


@dataclass(frozen=True)
class Committed:
    """`lag` is how many records lie beyond the offset; `member` who has the partition now."""

    topic: str
    partition: int
    offset: int
    lag: int
    member: str | None


@dataclass(frozen=True)
class Joined:
    id: str
    client: str


@dataclass(frozen=True)
class Described:
    name: str
    generation: int
    lag: int
    members: list[Joined]
    offsets: list[Committed]


@dataclass(frozen=True, kw_only=True)
class Named:
    group: str = in_path("The group's name.")


@dataclass(frozen=True, kw_only=True)
class Reset(Named):
    to: str = in_body("Where to: beginning, end, a time, -10m, or positions like orders/0:120.")
    topics: list[str] = in_body("Only these; by default all of which the group has offsets.", ())


def list_groups(site: Site) -> list[Listed]:
    """All groups, with how far they are behind."""
    names = [name for name in site.log.groups() if site.rights.may(Deed.READ, Thing(Kind.GROUP, name))]
    return [_listed(site.log.group(name)) for name in names]


def get_group(site: Site, asked: Named) -> Described:
    """A group's members, its offsets, and how many records lie beyond them."""
    return _described(site.log.group(asked.group))


def reset_group(site: Site, asked: Reset) -> Described:
    """Move a group's offsets. It must have no members; one that is not there yet is made."""
    site.log.reset_group(asked.group, _offsets(site, asked))
    return _described(site.log.group(asked.group))


def delete_group(site: Site, asked: Named) -> None:
    """Delete a group with its offsets. It must have no members."""
    site.log.delete_group(asked.group)


def _offsets(site: Site, asked: Reset) -> dict[TopicPartition, int]:
    if "/" in asked.to:
        return positions_of(asked.to)
    topics = asked.topics
    if not topics:
        topics = sorted({place.topic for place in site.log.group(asked.group).offsets})
    found = {place: at for topic in topics for place, at in starts(site.log, topic, asked.to).items()}
    if not found:
        raise BadRequest(f'group "{asked.group}" has no offsets yet', fix='say which "topics"')
    return found


def _listed(info: GroupInfo) -> Listed:
    return Listed(info.name, len(info.members), len(info.offsets), sum(info.lag.values()))


def _described(info: GroupInfo) -> Described:
    owners = {place: member.id for member in info.members for place in member.assignment}
    offsets = [Committed(*p, at, info.lag.get(p, 0), owners.get(p)) for p, at in sorted(info.offsets.items())]
    members = [Joined(member.id, member.client) for member in info.members]
    return Described(info.name, info.generation, sum(info.lag.values()), members, offsets)


_CONTROL = May(Deed.CONTROL, Kind.GROUP, "group")
ROUTES = (
    Route("GET", "/groups", list_groups, needs=Be.KNOWN),
    Route("GET", "/groups/{group}", get_group, needs=May(Deed.READ, Kind.GROUP, "group")),
    Route("POST", "/groups/{group}/reset", reset_group, needs=_CONTROL),
    Route("DELETE", "/groups/{group}", delete_group, 204, needs=_CONTROL),
)
