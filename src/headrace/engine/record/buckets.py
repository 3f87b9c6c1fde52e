"""Keyed state in buckets: a store that leaves memory, of which a batch reads and writes only what it touches.

A page's stores lie in one map from a bucket's address to bytes (Spark's MapState). A store that is small lies whole in
the page's *root*, so that a page with little state costs one read and one write a batch. When it has grown it moves
out into buckets of its own, which split one after the other as it grows further (linear hashing): a bucket holds some
`ROOM` bytes however many entries there are, and no batch ever has to rearrange everything.

What was changed is written by `PageState.save` at the end of the page's batch; earlier only if the batch touches more
than `HELD`. A value that was changed in place must be set again, or it may be lost: an entry is written if something in
its bucket was set or deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

from headrace.plan.encoding import decode, encode, weight

ROOM = 8 << 10
"""Bytes of a bucket, on average, before they are packed, as all sizes here are."""

INLINE = 4 << 10
"""Bytes of a store that still lies in the root."""

GUESS = 48
"""Bytes of an entry, before any was written."""

PORTION = 1024
"""Buckets read at one go, when a whole store is."""

HELD = 32 << 20
"""Bytes of a store that a batch holds decoded, which take some eight times as much memory."""

Address = tuple[str, int]
"""A store's name and the bucket's number."""

ROOT: Address = ("", 0)

Change = tuple[Address, bytes | None]
"""What a bucket is from now on; nothing if it is gone."""


class Shelf(Protocol):
    """Where a page's buckets lie."""

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]: ...
    def write(self, changes: Iterable[Change]) -> None: ...


def place(key: Any, seed: int = 0) -> int:
    """A number that is the same for equal keys, in every process and for ever; `hash` of text is not."""
    if isinstance(key, tuple):
        for part in key:
            text = part.__class__ is str  # most keys are one text: spare them a call
            seed = crc32(part.encode("utf-8", "surrogatepass"), seed + 1) if text else place(part, seed + 1)
        return seed
    if isinstance(key, str):
        return crc32(key.encode("utf-8", "surrogatepass"), seed)
    if isinstance(key, bytes):
        return crc32(key, seed)
    # What is not equal to itself, and nothing, have another hash in each process.
    return crc32(b"" if key is None or key != key else hash(key).to_bytes(8, "little", signed=True), seed)


@dataclass(slots=True)
class Bucket:
    """Entries that lie together, and how many bytes they were on the shelf; `dirty` if they differ from those."""

    entries: dict[Any, Any] = field(default_factory=dict)
    size: int = 0
    dirty: bool = False


@dataclass(slots=True)
class Shape:
    """How many entries a store has, how many buckets for them (none while it lies in the root), and their bytes."""

    entries: int = 0
    buckets: int = 0
    size: int = 0

    def number(self, key: Any) -> int:
        """The bucket of a key: those below the split point have been split in this round, the others not yet."""
        round_ = 1 << (self.buckets.bit_length() - 1)
        spot = place(key)
        number = spot & (2 * round_ - 1)
        return number if number < self.buckets else spot & (round_ - 1)

    @property
    def weight(self) -> float:
        """Bytes of an entry, on average."""
        return self.size / self.entries if self.size and self.entries else GUESS


_NOTHING: Any = object()
"""Stands for the value of a key that is not there."""


class Slot:
    """What a batch knows of a key: its value and its bucket. To ask again is to look into one mapping, not into two."""

    __slots__ = ("home", "value")

    def __init__(self, value: Any, home: Bucket) -> None:
        self.value = value
        self.home = home


class BucketStore(MutableMapping[Any, Any]):
    """One store of a chain on a page. `touches` is how many keys the batch may ask for, if that is known."""

    def __init__(self, name: str, shelf: Shelf, shape: Shape, inline: bytes = b"", where: str = "", touches: int = 0):
        self.name = name
        self.shape = shape
        self.inline = inline
        self._shelf = shelf
        self._where = f'{where}store "{name}"'
        self._touches = touches
        self._weight = shape.weight
        self._held = 0
        self._loaded: dict[int, Bucket] = {}
        self._slots: dict[Any, Slot] = {}
        self._root = Bucket(decode(inline, self._where) if inline else {})

    def __getitem__(self, key: Any) -> Any:
        value = (self._slots.get(key) or self._slot(key)).value
        if value is _NOTHING:
            raise KeyError(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        value = (self._slots.get(key) or self._slot(key)).value
        return default if value is _NOTHING else value

    def __contains__(self, key: object) -> bool:
        return (self._slots.get(key) or self._slot(key)).value is not _NOTHING

    def __setitem__(self, key: Any, value: Any) -> None:
        slot = self._slots.get(key) or self._slot(key)
        if slot.value is not value:  # most are changed in place
            self.shape.entries += slot.value is _NOTHING
            slot.home.entries[key] = slot.value = value
        slot.home.dirty = True

    def __delitem__(self, key: Any) -> None:
        slot = self._slots.get(key) or self._slot(key)
        del slot.home.entries[key]
        slot.value, slot.home.dirty = _NOTHING, True
        self.shape.entries -= 1

    def __len__(self) -> int:
        return self.shape.entries

    def __iter__(self) -> Iterator[Any]:
        if not self.shape.buckets:
            return iter(self._root.entries)
        return (key for number in range(self.shape.buckets) for key in self._bucket(number).entries)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def close(self) -> None:
        """Let go of what is held."""
        for held in (self._slots, self._loaded, self._root.entries):
            held.clear()

    # -- finding the bucket of a key --------------------------------------------------------------------------------

    def _slot(self, key: Any) -> Slot:
        home = self._root
        if self.shape.buckets:
            number = self.shape.number(key)
            home = self._loaded.get(number) or self._bucket(number)
        slot = self._slots[key] = Slot(home.entries.get(key, _NOTHING), home)
        return slot

    def _bucket(self, number: int) -> Bucket:
        found = self._loaded.get(number)
        if found is None:
            if self._held > HELD:
                self._let_go()
            if self._is_wanted_whole():
                self._load_whole()
            else:
                self._load([number])
            found = self._loaded[number]
        return found

    def _is_wanted_whole(self) -> bool:
        """One by one is slow; if nobody said how much will be touched, as much again as was touched already."""
        touches = self._touches or 2 * len(self._loaded)
        return 3 * touches > 2 * self.shape.buckets and self.shape.size <= HELD

    def _let_go(self) -> None:
        """Write what was changed, and begin anew: the batch touches more than should be held."""
        self._shelf.write(self._dirty())
        self._loaded.clear()
        self._slots.clear()
        self._held = 0

    def _load_whole(self) -> None:
        missing = [number for number in range(self.shape.buckets) if number not in self._loaded]
        for start in range(0, len(missing), PORTION):
            self._load(missing[start : start + PORTION])

    def _load(self, numbers: Sequence[int]) -> None:
        for number, data in zip(numbers, self._shelf.read([(self.name, number) for number in numbers]), strict=True):
            bucket = Bucket() if data is None else Bucket(self._decoded(number, data), weight(data))
            self._loaded[number] = bucket
            self._held += bucket.size

    def _decoded(self, number: int, data: bytes) -> dict[Any, Any]:
        return decode(data, f"{self._where}, bucket {number}")

    # -- the end of a batch -----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[Change]:
        """Split what has become too full, and give what was changed; `inline` and `shape` are true afterwards."""
        if not self.shape.buckets:
            self._settle()
        if self.shape.buckets:
            self._grow()
            yield from self._dirty()
        if self.shape.buckets and not self.shape.entries:
            self._return()

    def _return(self) -> None:
        """Into the root, empty, as all its buckets are gone."""
        self.shape = Shape()
        self._held = 0
        self._loaded.clear()
        self._slots.clear()

    def _settle(self) -> None:
        """Stay in the root, or move out of it."""
        if not self._root.dirty:
            return
        small = len(self._root.entries) <= INLINE // 8
        self.inline = encode(self._root.entries) if small and self._root.entries else b""
        self._root.dirty = False
        size = weight(self.inline) if self.inline else 0
        if not small or size > INLINE:
            self._weight = max(size / len(self._root.entries), 1) if size else GUESS
            self._loaded[0] = Bucket(self._root.entries, dirty=True)
            self.shape.buckets = 1
            self._root, self.inline = Bucket(), b""
            self._slots.clear()

    def _grow(self) -> None:
        """As many buckets as the entries need; a store never goes back, but when it is empty."""
        before = self.shape.buckets
        wanted = min(self.shape.entries, int(self.shape.entries * self._weight / ROOM))
        if wanted >= 2 * before:
            self._spread(wanted)
        while self.shape.buckets < wanted:
            self._split()
        if self.shape.buckets > before:
            self._slots.clear()

    def _spread(self, buckets: int) -> None:
        """All entries anew, for a store that this batch has made more than twice as large."""
        self._load_whole()
        before = self._loaded
        self.shape.buckets = buckets
        # Those that were there keep their size on the shelf, where they are written or removed in any case.
        self._loaded = {
            number: Bucket(size=before[number].size if number in before else 0) for number in range(buckets)
        }
        for bucket in before.values():
            for key, value in bucket.entries.items():
                self._loaded[self.shape.number(key)].entries[key] = value
        for bucket in self._loaded.values():
            bucket.dirty = bool(bucket.entries or bucket.size)

    def _split(self) -> None:
        """Bucket number `buckets` comes into being, out of the one that stands where the highest bit is off."""
        new = self.shape.buckets
        source = new - (1 << (new.bit_length() - 1))
        if source not in self._loaded:
            self._load([source])
        old = self._loaded[source]
        self.shape.buckets += 1
        moving = {key: value for key, value in old.entries.items() if self.shape.number(key) == new}
        for key in moving:
            del old.entries[key]
        old.dirty = old.dirty or bool(moving)
        self._loaded[new] = Bucket(moving, dirty=bool(moving))

    def _dirty(self) -> Iterator[Change]:
        for number, bucket in self._loaded.items():
            if bucket.dirty:
                yield (self.name, number), self._written(bucket)

    def _written(self, bucket: Bucket) -> bytes | None:
        data = encode(bucket.entries) if bucket.entries else None
        size = weight(data) if data else 0
        self.shape.size += size - bucket.size
        bucket.size, bucket.dirty = size, False
        return data


Known = tuple[int, int, int, bytes]
"""What the root says of a store: its shape, and its entries while they lie there."""


@dataclass
class PageState:
    """All stores of a page. `save` at the end of its batch.

    `touches` is how many records the batch has, for deciding how much to read at one go.
    """

    shelf: Shelf
    page: int | None = None
    touches: int = 0
    stores: dict[str, BucketStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._where = "" if self.page is None else f"page {self.page}, "
        data = self.shelf.read([ROOT])[0]
        self._known: dict[str, Known] = decode(data, f"{self._where}root") if data else {}

    def store(self, name: str) -> BucketStore:
        if name not in self.stores:
            *shape, inline = self._known.get(name, (0, 0, 0, b""))
            self.stores[name] = BucketStore(name, self.shelf, Shape(*shape), inline, self._where, self.touches)
        return self.stores[name]

    @property
    def entries(self) -> int:
        """How many entries the page holds, over all stores."""
        known = sum(entries for name, (entries, *_) in self._known.items() if name not in self.stores)
        return known + sum(map(len, self.stores.values()))

    def save(self) -> None:
        self.shelf.write(self._changes())

    def close(self) -> None:
        """Let go of all entries. Steps and what they run in hold each other, and their stores: Python would find that
        out only by looking through every entry."""
        for store in self.stores.values():
            store.close()

    def _changes(self) -> Iterator[Change]:
        for store in self.stores.values():
            yield from store.changes()
        root = self._known | {name: _known(store) for name, store in self.stores.items()}
        root = {name: known for name, known in root.items() if known[0]}
        if root != self._known:
            yield ROOT, encode(root) if root else None
            self._known = root


def _known(store: BucketStore) -> Known:
    return store.shape.entries, store.shape.buckets, store.shape.size, store.inline
