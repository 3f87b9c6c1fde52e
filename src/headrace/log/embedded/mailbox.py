"""Group commit across processes: whoever has the turn commits for all who wait.

Each process has a slot in shared memory. One that wants to append while another is committing posts its encoded rows
there; the next leader takes all posts into its own transaction, and one sync serves them all. Without it sixteen
processes that append single rows spend their time handing the lock around.

A post carries a number that the leader stores in the same transaction (table `mail`), so a process whose leader died
can tell whether its rows are in the log. A leader that cannot serve a post (its topic changed, say) refuses it, and
the poster does it itself, to get its error first hand.
"""

from __future__ import annotations

import ctypes
import itertools
import marshal
import mmap
import os
import sqlite3
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.faultpoints import reach
from headrace.log.embedded import futex
from headrace.log.embedded.fairlock import Turn, descriptor, try_lock, unlock

SLOTS, CAPACITY = 64, 16 << 10
_STATES = 4 * SLOTS  # the states of all slots come first, so that one look shows them all
EMPTY, POSTED, TAKEN, DONE, REFUSED = range(5)
_ELECTION = SLOTS  # byte after those of the slots


class _Slot(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_uint32),
        ("checksum", ctypes.c_uint32),
        ("owner", ctypes.c_char * 20),
        ("number", ctypes.c_uint64),
        ("body", ctypes.c_ubyte * (CAPACITY - 64)),
    )

    def write(self, body: bytes) -> None:
        ctypes.memmove(self.body, body, len(body))
        self.length, self.checksum = len(body), zlib.crc32(body)

    def read(self) -> Any:
        """The body, or None if somebody is writing it at this moment."""
        body = ctypes.string_at(self.body, min(self.length, ctypes.sizeof(self.body)))
        return marshal.loads(body) if zlib.crc32(body) == self.checksum else None


@dataclass(frozen=True, slots=True)
class Post:
    """Rows another process wants committed: (topic, id, version, partition, extent fields) each."""

    slot: int
    owner: str
    number: int
    parts: list[tuple[Any, ...]]


class Mailbox:
    """This process's slot and its view of the others'."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._owner = owner
        self._fd = descriptor(folder / "mail")
        self._map = _map(self._fd)
        self._states = memoryview(self._map)[:_STATES].cast("I")
        self._words = (ctypes.c_uint32 * SLOTS).from_buffer(self._map)
        self._slots = (_Slot * SLOTS).from_buffer(self._map, _STATES)
        self._numbers = itertools.count(1)
        self.turn = Turn.of(self._fd, _ELECTION)
        self._mine = self._claim()
        if self._mine is not None:
            self._states[self._mine] = EMPTY
            self._slots[self._mine].owner = owner.encode()

    def _claim(self) -> int | None:
        with _claims_guard:
            taken = _claims.setdefault(self._fd, set())
            for slot in range(SLOTS):
                if slot not in taken and try_lock(self._fd, slot):
                    taken.add(slot)
                    return slot
        return None

    # -- as the one who waits -----------------------------------------------------------------------------------------

    def post(self, parts: list[tuple[Any, ...]]) -> int | None:
        """Leave rows for the leader; None if they do not fit or there is no slot. Returns their number."""
        body = marshal.dumps(parts, 4)
        if self._mine is None or len(body) > CAPACITY - 64:
            return None
        slot = self._slots[self._mine]
        slot.number = number = next(self._numbers)
        slot.write(body)
        self._states[self._mine] = POSTED
        return number

    @property
    def state(self) -> int:
        return self._states[self._mine] if self._mine is not None else EMPTY

    def wait(self, seen: int, seconds: float) -> None:
        """Sleep until the state of the own slot is another, or a leader says that the turn is free."""
        assert self._mine is not None
        futex.wait(self._word(self._mine), seen, seconds)

    def reply(self) -> list[int] | None:
        """The offsets that a leader gave the rows; None if it refused."""
        assert self._mine is not None
        offsets = self._slots[self._mine].read() if self.state == DONE else None
        self._states[self._mine] = EMPTY
        return offsets

    def recover(self, query: Any, number: int) -> list[int] | None:
        """As the leader: the offsets of the own post, if a leader that died has committed it."""
        assert self._mine is not None
        self._states[self._mine] = EMPTY
        rows = query("SELECT number, offsets FROM mail WHERE owner = ?", self._owner)
        return marshal.loads(rows[0][1]) if rows and rows[0][0] == number else None

    def forget(self) -> None:
        """Take the own post back: a leader that has not placed it yet refuses it now."""
        if self._mine is not None:
            self._states[self._mine] = EMPTY

    # -- as the leader ------------------------------------------------------------------------------------------------

    def collect(self) -> list[Post]:
        """Take all posts."""
        posts: list[Post] = []
        for index in self._posted():
            slot = self._slots[index]
            number, owner, parts = slot.number, slot.owner.decode(), slot.read()
            if parts is not None and slot.number == number:
                self._states[index] = TAKEN
                posts.append(Post(index, owner, number, parts))
                reach("mail.taken")
        return posts

    def _posted(self) -> list[int]:
        states = self._states.tolist()
        return [i for i, state in enumerate(states) if state == POSTED and i != self._mine] if POSTED in states else []

    def remember(self, db: sqlite3.Connection, post: Post, offsets: list[int]) -> None:
        """Store, in the transaction of the rows themselves, that a post was committed."""
        db.execute("INSERT OR REPLACE INTO mail VALUES (?, ?, ?)", (post.owner, post.number, marshal.dumps(offsets, 4)))

    def holds(self, post: Post) -> bool:
        """Whether a post that was taken is still wanted: its poster may have taken it back or be gone."""
        slot = self._slots[post.slot]
        return self._states[post.slot] == TAKEN and slot.number == post.number and slot.owner.decode() == post.owner

    def answer(self, post: Post, offsets: list[int] | None) -> None:
        """Tell the poster, unless its slot has been given to another meanwhile."""
        if not self.holds(post):
            return
        if offsets is not None:
            self._slots[post.slot].write(marshal.dumps(offsets, 4))
        reach("mail.answering")
        self._states[post.slot] = REFUSED if offsets is None else DONE
        futex.wake(self._word(post.slot))

    def step_down(self) -> None:
        """Give up the turn, and wake one who waits for it."""
        self.turn.give()
        for index in self._posted()[:1]:
            futex.wake(self._word(index))

    def _word(self, index: int) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_buffer(self._words, 4 * index)

    def close(self) -> None:
        with _claims_guard:
            if self._mine is not None:
                self._states[self._mine] = EMPTY
                _claims[self._fd].discard(self._mine)
                unlock(self._fd, self._mine)


# Several logs of one process share a file's locks, so they must agree on who has which slot.
_claims: dict[int, set[int]] = {}
_claims_guard = threading.Lock()


def _map(fd: int) -> mmap.mmap:
    size = _STATES + ctypes.sizeof(_Slot) * SLOTS
    os.posix_fallocate(fd, 0, size)
    return mmap.mmap(fd, size)
