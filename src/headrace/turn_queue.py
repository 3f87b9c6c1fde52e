"""A queue in which users take turns: each has a queue of its own, and the next item comes from each of them in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class TurnQueue(Generic[Item]):
    """Not thread-safe."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[Item]] = OrderedDict()
        """By user, none of them empty; the first one is next."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def count(self, user: str) -> int:
        """How many items of a user wait."""
        return len(self._queues.get(user, ()))

    def add(self, user: str, item: Item) -> None:
        self._queues.setdefault(user, deque()).append(item)

    def next_user(self, may: Callable[[str], bool] = lambda user: True) -> str | None:
        """The first user in turn who may take one; None if there is none."""
        return next((user for user in self._queues if may(user)), None)

    def take(self, user: str) -> Item:
        """Remove the oldest item of a waiting user, whose next turn comes behind the others'."""
        queue = self._queues.pop(user)
        item = queue.popleft()
        if queue:
            self._queues[user] = queue
        return item

    def discard(self, user: str, item: Item) -> None:
        """Remove an item, if it still waits; the user's turn stays."""
        queue = self._queues.get(user)
        if queue is not None and item in queue:
            queue.remove(item)
            if not queue:
                del self._queues[user]
