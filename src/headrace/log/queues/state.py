"""What a queue's journal means: a fold over its events, the same for every member that reads them.

All members see the events in one order, so all agree on who won a claim. Time is part of the events: each carries the
clock of its writer, the fold takes the highest so far, and only that decides what has run out.

A message is *new* (at or above `next`), *held* (a worker has it, or had it and it waits to come again) or finished.
A held message whose deliveries are used up, or which was refused for good, is *spent*: it can only be buried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Event = dict[str, Any]


class Item(NamedTuple):
    """A message's place in the topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Held:
    """A message that was delivered and is not finished. `claim` is empty while it waits to come again."""

    claim: str
    owner: str
    until: int
    deliveries: int
    limit: int
    refused: bool = False

    def spent(self, at: int) -> bool:
        return self.refused or (self.until <= at and self.deliveries >= self.limit)

    def ready(self, at: int) -> bool:
        return self.until <= at and not self.spent(at)


@dataclass
class State:
    """The queue after the events so far. `next` has, by partition, the lowest offset that was never claimed."""

    at: int = 0
    next: dict[int, int] = field(default_factory=dict)
    held: dict[Item, Held] = field(default_factory=dict)
    done: int = 0
    dead: int = 0
    lost: int = 0

    def apply(self, event: Event) -> list[Item]:
        """Fold one event; returns the items on which it had its effect. Unknown events are those of later versions."""
        self.at = max(self.at, event.get("at", 0))
        fold = _FOLDS.get(event["event"])
        return fold(self, event) if fold else []

    def spent(self, at: int) -> list[Item]:
        return sorted(item for item, held in self.held.items() if held.spent(at))

    def ready(self, at: int) -> list[Item]:
        """What may be delivered again: first what ran out, then what was given back."""
        return sorted(
            (i for i, held in self.held.items() if held.ready(at)), key=lambda i: (self.held[i].claim == "", i)
        )

    def holds(self, item: Item, claim: str) -> bool:
        """Whether the claim still has the message: late is fine as long as no other took it and it is not spent."""
        held = self.held.get(item)
        return held is not None and held.claim == claim and not held.spent(self.at)

    def dump(self) -> dict[str, Any]:
        """The state as JSON, for a snapshot."""
        held = [[*i, h.claim, h.owner, h.until, h.deliveries, h.limit, h.refused] for i, h in self.held.items()]
        counts = {"done": self.done, "dead": self.dead, "lost": self.lost}
        return {"at": self.at, "next": sorted(self.next.items()), "held": held, **counts}

    @classmethod
    def load(cls, saved: dict[str, Any]) -> State:
        held = {Item(*row[:2]): Held(*row[2:]) for row in saved["held"]}
        next_offsets = {int(p): int(o) for p, o in saved["next"]}
        return cls(saved["at"], next_offsets, held, saved["done"], saved["dead"], saved["lost"])


def _open(state: State, event: Event) -> list[Item]:
    """The queue begins: rows that were removed before that are not its loss."""
    for partition, start in event["starts"]:
        state.next.setdefault(partition, start)
    return []


def _claim(state: State, event: Event) -> list[Item]:
    won = [item for item in _items(event) if _may_claim(state, item)]
    for item in won:
        before = state.held.get(item)
        state.held[item] = Held(
            event["id"],
            event["owner"],
            state.at + event["hold"],
            before.deliveries + 1 if before else 1,
            before.limit if before else event["limit"],
        )
        state.next[item.partition] = max(state.next.get(item.partition, 0), item.offset + 1)
    return won


def _may_claim(state: State, item: Item) -> bool:
    held = state.held.get(item)
    return held.ready(state.at) if held else item.offset >= state.next.get(item.partition, 0)


def _ack(state: State, event: Event) -> list[Item]:
    return [item for item, _ in _finished(state, _held_items(state, event), "done")]


def _reject(state: State, event: Event) -> list[Item]:
    items = list(_held_items(state, event))
    for item in items:
        held = state.held[item]
        claim = "" if event["requeue"] else held.claim
        state.held[item] = replace(held, claim=claim, until=0, refused=not event["requeue"])
    return items


def _extend(state: State, event: Event) -> list[Item]:
    items = list(_held_items(state, event))
    for item in items:
        state.held[item] = replace(state.held[item], until=state.at + event["hold"])
    return items


def _dead(state: State, event: Event) -> list[Item]:
    spent = (i for i in _items(event) if i in state.held and state.held[i].spent(state.at))
    return [item for item, _ in _finished(state, spent, "dead")]


def _lost(state: State, event: Event) -> list[Item]:
    """Rows below a partition's start, and single rows, were removed before they were delivered (again)."""
    for partition, start in event["starts"]:
        state.lost += max(0, start - state.next.get(partition, 0))
        state.next[partition] = max(start, state.next.get(partition, 0))
    starts = dict(event["starts"])
    named = set(_items(event))
    gone = [i for i in state.held if (i in named or i.offset < starts.get(i.partition, 0)) and _is_idle(state, i)]
    return [item for item, _ in _finished(state, gone, "lost")]


def _is_idle(state: State, item: Item) -> bool:
    held = state.held[item]
    return held.ready(state.at) or held.spent(state.at)


def _finished(state: State, items: Iterable[Item], counter: str) -> list[tuple[Item, Held]]:
    finished = [(item, state.held.pop(item)) for item in list(items)]
    setattr(state, counter, getattr(state, counter) + len(finished))
    return finished


def _items(event: Event) -> Iterator[Item]:
    return (Item(*item[:2]) for item in event["items"])


def _held_items(state: State, event: Event) -> Iterator[Item]:
    """The items that their claim still holds; an item that is named twice counts once."""
    named = {Item(partition, offset): claim for partition, offset, claim in event["items"]}
    return (item for item, claim in named.items() if state.holds(item, claim))


_FOLDS: dict[str, Callable[[State, Event], list[Item]]] = {
    "open": _open,
    "claim": _claim,
    "ack": _ack,
    "reject": _reject,
    "extend": _extend,
    "dead": _dead,
    "lost": _lost,
}
