"""Group commit across processes: the leader commits for all waiting processes.

Each process has a slot in shared memory. A process that appends while another one commits posts its encoded rows there.
The leader takes all posts into its next transaction, and one sync serves them all. Without this, sixteen processes that
append single rows spend their time passing the lock around.

A commit costs the same for one row as for sixteen. So a leader that follows shortly after a group of several posts
first waits a little, longer for a larger group; a lone process never waits.

All waiting processes sleep on one futex word, each under its own bit: one system call wakes those that have an answer.
The leader flag in shared memory is a hint; leadership itself is a kernel lock, which is released when its holder dies.

A post carries a number that the leader stores in the same transaction (table `mail`), so a process whose leader died
can tell whether its rows are in the log. A leader that cannot serve a post (because its topic changed, for example)
refuses it, and the poster commits it by itself to get the original error.
"""

from __future__ import annotations

import ctypes
import itertools
import marshal
import mmap
import os
import random
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.faultpoints import reach
from headrace.log.embedded.ipc import futex
from headrace.log.embedded.ipc.fair_lock import TryLock, descriptor, try_lock, unlock

SLOTS, CAPACITY = 64, 16 << 10
EMPTY, POSTED, TAKEN, DONE, REFUSED = range(5)
# These words come first, so that one read shows them all: the states of the slots, then these.
_RING, _LED, _ENDED, _COMPANY = range(SLOTS, SLOTS + 4)
_WORDS = SLOTS + 16
_SUMS, _SENDER = struct.Struct("<II"), struct.Struct("<20sQ")  # length and checksum of the body; owner and number
_HEAD = _SUMS.size + _SENDER.size
_GATHER_TIME = 100  # microseconds to wait after a commit, for each of its posts, before the next one starts
_POLL_INTERVAL = 250  # microseconds between two checks of the posts
_WORD = 0xFFFFFFFF
_ELECTION = SLOTS  # lock byte after those of the slots


@dataclass(frozen=True, slots=True)
class Post:
    """Rows that another process wants committed: (topic, id, version, partition, extent fields) each."""

    slot: int
    owner: str
    number: int
    parts: list[tuple[Any, ...]]


class Mailbox:
    """This process's slot and its view of the other slots."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._owner = owner
        self._fd = descriptor(folder / "mail")
        self._map = _map(self._fd)
        self._words = memoryview(self._map)[: 4 * _WORDS].cast("I")
        self._ring = ctypes.c_uint32.from_buffer(self._map, 4 * _RING)
        self._numbers = itertools.count(1)
        self._random = random.Random()
        self._answered = 0  # bits of the processes to wake
        self._leader_lock = TryLock.of(self._fd, _ELECTION)
        self._slot = self._claim()
        if self._slot is not None:
            self._words[self._slot] = EMPTY

    def _claim(self) -> int | None:
        with _claims_guard:
            claimed_slots = _claims.setdefault(self._fd, set())
            for slot in range(SLOTS):
                if slot not in claimed_slots and try_lock(self._fd, slot):
                    claimed_slots.add(slot)
                    return slot
        return None

    # -- as a waiting process -----------------------------------------------------------------------------------------

    def post(self, parts: list[tuple[Any, ...]]) -> int | None:
        """Post rows for the leader and return their number; None if they do not fit or there is no free slot."""
        body = marshal.dumps(parts, 4)
        if self._slot is None or len(body) > CAPACITY - _HEAD:
            return None
        number = next(self._numbers)
        _SENDER.pack_into(self._map, _at(self._slot) + _SUMS.size, self._owner.encode(), number)
        self._write(self._slot, body)
        self._words[self._slot] = POSTED
        return number

    @property
    def state(self) -> int:
        return self._words[self._slot] if self._slot is not None else EMPTY

    @property
    def ring(self) -> int:
        """The signal word, to be read before the state and the leader hint, and passed to `wait`."""
        return self._words[_RING]

    def wait(self, ring: int, seconds: float) -> None:
        """Sleep until a leader has answered our post or stepped down; returns at once if one signalled since `ring`."""
        assert self._slot is not None
        futex.wait(self._ring, ring, seconds, _bit(self._slot))

    def reply(self) -> list[int] | None:
        """The offsets that a leader gave to the rows; None if it refused them."""
        assert self._slot is not None
        offsets = self._read(self._slot) if self.state == DONE else None
        self._words[self._slot] = EMPTY
        return offsets

    def recover(self, query: Any, number: int) -> list[int] | None:
        """As the leader: the offsets of our own post, if a leader that died has committed it."""
        assert self._slot is not None
        self._words[self._slot] = EMPTY
        rows = query("SELECT number, offsets FROM mail WHERE owner = ?", self._owner)
        return marshal.loads(rows[0][1]) if rows and rows[0][0] == number else None

    def clear_post(self) -> None:
        """Withdraw our own post: a leader that has not placed it yet refuses it from now on."""
        if self._slot is not None:
            self._words[self._slot] = EMPTY

    # -- as the leader ------------------------------------------------------------------------------------------------

    @property
    def has_leader(self) -> bool:
        """Whether another process seems to lead; it signals when it steps down, unless it died."""
        return self._words[_LED] != 0

    def try_lead(self) -> bool:
        """Become the leader, if there is none."""
        if not self._leader_lock.take():
            return False
        self._words[_LED] = 1
        return True

    def gather(self) -> None:
        """Give the members of the last group time to join the next one; returns early when they have."""
        company = self._words[_COMPANY]
        while (left := company * _GATHER_TIME - (_microseconds() - self._words[_ENDED] & _WORD)) > 0:
            if len(self._posted()) >= company:
                return
            time.sleep(min(left, _POLL_INTERVAL) / 1e6)

    def collect(self) -> list[Post]:
        """Take all posts."""
        posts: list[Post] = []
        for index in self._posted():
            sender, parts = self._sender(index), self._read(index)
            if parts is not None and self._sender(index) == sender:
                self._words[index] = TAKEN
                posts.append(Post(index, *sender, parts))
                reach("mail.taken")
        self._words[_COMPANY] = len(posts)
        return posts

    def _posted(self) -> list[int]:
        states = self._words[:SLOTS].tolist()
        return [i for i, state in enumerate(states) if state == POSTED and i != self._slot] if POSTED in states else []

    def record_answers(self, db: sqlite3.Connection, answers: Iterable[tuple[Post, list[int] | None]]) -> None:
        """Record, in the same transaction as the rows, that posts were committed."""
        done = [
            (post.owner, post.number, marshal.dumps(offsets, 4)) for post, offsets in answers if offsets is not None
        ]
        db.executemany("INSERT OR REPLACE INTO mail VALUES (?, ?, ?)", done)

    def holds(self, post: Post) -> bool:
        """Whether a collected post is still valid: its poster may have withdrawn it, or be dead."""
        return self._words[post.slot] == TAKEN and self._sender(post.slot) == (post.owner, post.number)

    def answer(self, post: Post, offsets: list[int] | None) -> None:
        """Write the answer into the poster's slot, unless the slot has a new owner; `step_down` wakes the poster."""
        if not self.holds(post):
            return
        if offsets is not None:
            self._write(post.slot, marshal.dumps(offsets, 4))
        reach("mail.answering")
        self._words[post.slot] = REFUSED if offsets is None else DONE
        self._answered |= _bit(post.slot)

    def step_down(self) -> None:
        """Give up leadership; wake the processes that have an answer, and one of those that wait for one."""
        bits, self._answered = self._answered, 0
        self._words[_ENDED] = _microseconds()
        self._words[_LED] = 0
        self._leader_lock.give()
        # A new random value, whatever the next leader writes at the same time: a process that read the old one does not
        # sleep.
        self._words[_RING] = self._random.getrandbits(32)
        for index in self._posted()[:1]:
            bits |= _bit(index)
        if bits:
            futex.wake(self._ring, bits)

    # -- slots --------------------------------------------------------------------------------------------------------

    def _write(self, slot: int, body: bytes) -> None:
        at = _at(slot)
        self._map[at + _HEAD : at + _HEAD + len(body)] = body
        _SUMS.pack_into(self._map, at, len(body), zlib.crc32(body))

    def _read(self, slot: int) -> Any:
        """The body, or None if it is being written at this moment."""
        at = _at(slot)
        length, checksum = _SUMS.unpack_from(self._map, at)
        body = self._map[at + _HEAD : at + _HEAD + min(length, CAPACITY - _HEAD)]
        return marshal.loads(body) if zlib.crc32(body) == checksum else None

    def _sender(self, slot: int) -> tuple[str, int]:
        owner, number = _SENDER.unpack_from(self._map, _at(slot) + _SUMS.size)
        return owner.rstrip(b"\0").decode(), number

    def close(self) -> None:
        with _claims_guard:
            if self._slot is not None:
                self._words[self._slot] = EMPTY
                _claims[self._fd].discard(self._slot)
                unlock(self._fd, self._slot)


# Several logs of one process share a file's locks, so they must coordinate which of them has which slot.
_claims: dict[int, set[int]] = {}
_claims_guard = threading.Lock()


def _bit(slot: int) -> int:
    """Slots that share a bit are sometimes woken for each other."""
    return 1 << slot % 32


def _microseconds() -> int:
    """A clock that all processes share, truncated to one word."""
    return time.monotonic_ns() // 1000 & _WORD


def _at(slot: int) -> int:
    return 4 * _WORDS + CAPACITY * slot


def _map(fd: int) -> mmap.mmap:
    size = _at(SLOTS)
    os.posix_fallocate(fd, 0, size)
    return mmap.mmap(fd, size)
