"""A queue's state: a deterministic fold over the journal's events, the same for every member.

All members see the events in one order, so all agree on who won a claim. Time is part of the events: each carries its
writer's clock, the fold takes the highest so far, and only that decides what has timed out.

A message is *new* (at or above `next`), *in flight* (claimed by a worker, or waiting for redelivery) or finished. A
message in flight whose deliveries are used up, or which was rejected permanently, is *exhausted*: it can only be
dead-lettered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Event = dict[str, Any]


class MessageId(NamedTuple):
    """A message's position in the topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """A message that was delivered and is not finished. `claim` is empty while it waits for redelivery."""

    claim: str
    owner: str
    until: int
    deliveries: int
    limit: int
    refused: bool = False

    def is_exhausted(self, at: int) -> bool:
        return self.refused or (self.until <= at and self.deliveries >= self.limit)

    def ready(self, at: int) -> bool:
        return self.until <= at and not self.is_exhausted(at)


@dataclass
class QueueState:
    """The queue after the events so far. `next` holds, by partition, the lowest offset that was never claimed."""

    at: int = 0
    next: dict[int, int] = field(default_factory=dict)
    held: dict[MessageId, InFlight] = field(default_factory=dict)
    done: int = 0
    dead: int = 0
    lost: int = 0

    def apply(self, event: Event) -> list[MessageId]:
        """Apply one event; returns the messages on which it took effect. Unknown events come from later versions."""
        self.at = max(self.at, event.get("at", 0))
        fold = _FOLDS.get(event["event"])
        return fold(self, event) if fold else []

    def exhausted(self, at: int) -> list[MessageId]:
        return sorted(item for item, in_flight in self.held.items() if in_flight.is_exhausted(at))

    def ready(self, at: int) -> list[MessageId]:
        """What may be redelivered: first what timed out, then what was returned."""
        return sorted(
            (i for i, in_flight in self.held.items() if in_flight.ready(at)),
            key=lambda i: (self.held[i].claim == "", i),
        )

    def holds(self, item: MessageId, claim: str) -> bool:
        """Whether the claim still owns the message: late is fine unless another claim took it or it is exhausted."""
        in_flight = self.held.get(item)
        return in_flight is not None and in_flight.claim == claim and not in_flight.is_exhausted(self.at)

    def dump(self) -> dict[str, Any]:
        """The state as JSON, for a snapshot."""
        in_flight = [[*i, h.claim, h.owner, h.until, h.deliveries, h.limit, h.refused] for i, h in self.held.items()]
        counts = {"done": self.done, "dead": self.dead, "lost": self.lost}
        return {"at": self.at, "next": sorted(self.next.items()), "held": in_flight, **counts}

    @classmethod
    def load(cls, saved: dict[str, Any]) -> QueueState:
        in_flight = {MessageId(*row[:2]): InFlight(*row[2:]) for row in saved["held"]}
        next_offsets = {int(p): int(o) for p, o in saved["next"]}
        return cls(saved["at"], next_offsets, in_flight, saved["done"], saved["dead"], saved["lost"])


def _open(state: QueueState, event: Event) -> list[MessageId]:
    """The queue is created: rows that were removed before do not count as lost."""
    for partition, start in event["starts"]:
        state.next.setdefault(partition, start)
    return []


def _claim(state: QueueState, event: Event) -> list[MessageId]:
    won = [item for item in _items(event) if _may_claim(state, item)]
    for item in won:
        before = state.held.get(item)
        state.held[item] = InFlight(
            event["id"],
            event["owner"],
            state.at + event["hold"],
            before.deliveries + 1 if before else 1,
            before.limit if before else event["limit"],
        )
        state.next[item.partition] = max(state.next.get(item.partition, 0), item.offset + 1)
    return won


def _may_claim(state: QueueState, item: MessageId) -> bool:
    in_flight = state.held.get(item)
    return in_flight.ready(state.at) if in_flight else item.offset >= state.next.get(item.partition, 0)


def _ack(state: QueueState, event: Event) -> list[MessageId]:
    return [item for item, _ in _finished(state, _claimed_items(state, event), "done")]


def _reject(state: QueueState, event: Event) -> list[MessageId]:
    items = list(_claimed_items(state, event))
    for item in items:
        in_flight = state.held[item]
        claim = "" if event["requeue"] else in_flight.claim
        state.held[item] = replace(in_flight, claim=claim, until=0, refused=not event["requeue"])
    return items


def _extend(state: QueueState, event: Event) -> list[MessageId]:
    items = list(_claimed_items(state, event))
    for item in items:
        state.held[item] = replace(state.held[item], until=state.at + event["hold"])
    return items


def _dead(state: QueueState, event: Event) -> list[MessageId]:
    exhausted = (i for i in _items(event) if i in state.held and state.held[i].is_exhausted(state.at))
    return [item for item, _ in _finished(state, exhausted, "dead")]


def _lost(state: QueueState, event: Event) -> list[MessageId]:
    """Rows below a partition's start, and single rows, were removed before they were (re)delivered."""
    for partition, start in event["starts"]:
        state.lost += max(0, start - state.next.get(partition, 0))
        state.next[partition] = max(start, state.next.get(partition, 0))
    starts = dict(event["starts"])
    items = set(_items(event))
    removed = [i for i in state.held if (i in items or i.offset < starts.get(i.partition, 0)) and _is_idle(state, i)]
    return [item for item, _ in _finished(state, removed, "lost")]


def _is_idle(state: QueueState, item: MessageId) -> bool:
    in_flight = state.held[item]
    return in_flight.ready(state.at) or in_flight.is_exhausted(state.at)


def _finished(state: QueueState, items: Iterable[MessageId], counter: str) -> list[tuple[MessageId, InFlight]]:
    finished = [(item, state.held.pop(item)) for item in list(items)]
    setattr(state, counter, getattr(state, counter) + len(finished))
    return finished


def _items(event: Event) -> Iterator[MessageId]:
    return (MessageId(*item[:2]) for item in event["items"])


def _claimed_items(state: QueueState, event: Event) -> Iterator[MessageId]:
    """The messages that their claim still owns; a message that is named twice counts once."""
    named = {MessageId(partition, offset): claim for partition, offset, claim in event["items"]}
    return (item for item, claim in named.items() if state.holds(item, claim))


_FOLDS: dict[str, Callable[[QueueState, Event], list[MessageId]]] = {
    "open": _open,
    "claim": _claim,
    "ack": _ack,
    "reject": _reject,
    "extend": _extend,
    "dead": _dead,
    "lost": _lost,
}
