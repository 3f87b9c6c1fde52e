"""Keyed state in buckets: a store larger than memory, of which a batch reads and writes only what it touches.

A key group's stores are in one map from a bucket's address to bytes (Spark's MapState). A small store is stored whole
in the key group's *root*, so that a key group with little state costs one read and one write per batch. When it has
grown it moves to buckets of its own, which split one after the other as it grows further (linear hashing): a bucket
holds some `BUCKET_BYTES` however many entries there are, and no batch ever has to rearrange everything.

`KeyGroupState.save` writes changes at the end of the key group's batch; they are written earlier only if the batch
touches more than `MAX_CACHED_BYTES`. A value that was changed in place must be set again, or the change may be lost: an
entry is written only if something in its bucket was set or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from headrace.engine.spark.state_storage import Address, Change, StateStorage
from headrace.plan.state_encoding import decode, encode, unpacked_size

BUCKET_BYTES = 8 << 10
"""Average bytes of a bucket, before compression, as all sizes here."""

INLINE_BYTES = 4 << 10
"""Largest store in the root, in bytes."""

DEFAULT_ENTRY_BYTES = 48
"""Assumed bytes of an entry, before any was written."""

BUCKETS_PER_READ = 1024
"""Buckets per read, when a whole store is read."""

MAX_CACHED_BYTES = 32 << 20
"""Bytes of a store that a batch caches decoded, which take some eight times as much memory."""

ROOT: Address = ("", 0)


def stable_hash(key: Any, seed: int = 0) -> int:
    """A hash that is the same for equal keys, in every process and version; `hash` of a string is not."""
    if isinstance(key, tuple):
        for part in key:
            text = part.__class__ is str  # most keys are one string: avoids a call
            seed = crc32(part.encode("utf-8", "surrogatepass"), seed + 1) if text else stable_hash(part, seed + 1)
        return seed
    if isinstance(key, str):
        return crc32(key.encode("utf-8", "surrogatepass"), seed)
    if isinstance(key, bytes):
        return crc32(key, seed)
    # NaN and None have another hash in each process.
    return crc32(b"" if key is None or key != key else hash(key).to_bytes(8, "little", signed=True), seed)


@dataclass(slots=True)
class Bucket:
    """Entries that are stored together, and their size in storage in bytes; `dirty` if they differ from storage."""

    entries: dict[Any, Any] = field(default_factory=dict)
    size: int = 0
    dirty: bool = False


@dataclass(slots=True)
class StoreSize:
    """A store's number of entries, its number of buckets (0 while it is in the root), and their bytes."""

    entries: int = 0
    buckets: int = 0
    size: int = 0

    def number(self, key: Any) -> int:
        """The bucket of a key: those below the split point have been split in this round, the others not yet."""
        round_ = 1 << (self.buckets.bit_length() - 1)
        spot = stable_hash(key)
        number = spot & (2 * round_ - 1)
        return number if number < self.buckets else spot & (round_ - 1)

    @property
    def weight(self) -> float:
        """Average bytes of an entry."""
        return self.size / self.entries if self.size and self.entries else DEFAULT_ENTRY_BYTES


_NOTHING: Any = object()
"""Stands for the value of a key that does not exist."""


class CachedEntry:
    """A key's value and bucket, cached for a batch. A second access needs one lookup instead of two."""

    __slots__ = ("home", "value")

    def __init__(self, value: Any, home: Bucket) -> None:
        self.value = value
        self.home = home


class BucketStore(MutableMapping[Any, Any]):
    """One store of a chain in a key group. `touches` is how many keys the batch may access, if that is known."""

    def __init__(
        self, name: str, storage: StateStorage, shape: StoreSize, inline: bytes = b"", where: str = "", touches: int = 0
    ):
        self.name = name
        self.shape = shape
        self.inline = inline
        self._storage = storage
        self._where = f'{where}store "{name}"'
        self._touches = touches
        self._weight = shape.weight
        self._cached_bytes = 0
        self._loaded: dict[int, Bucket] = {}
        self._slots: dict[Any, CachedEntry] = {}
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
        """Releases all entries."""
        for entries in (self._slots, self._loaded, self._root.entries):
            entries.clear()

    # -- finding the bucket of a key
    # -------------------------------------------------------------------------------------

    def _slot(self, key: Any) -> CachedEntry:
        home = self._root
        if self.shape.buckets:
            number = self.shape.number(key)
            home = self._loaded.get(number) or self._bucket(number)
        slot = self._slots[key] = CachedEntry(home.entries.get(key, _NOTHING), home)
        return slot

    def _bucket(self, number: int) -> Bucket:
        bucket = self._loaded.get(number)
        if bucket is None:
            if self._cached_bytes > MAX_CACHED_BYTES:
                self._evict()
            if self._should_load_all():
                self._load_all()
            else:
                self._load([number])
            bucket = self._loaded[number]
        return bucket

    def _should_load_all(self) -> bool:
        """Reading one by one is slow; without `touches`, as many again as were read already are expected."""
        touches = self._touches or 2 * len(self._loaded)
        return 3 * touches > 2 * self.shape.buckets and self.shape.size <= MAX_CACHED_BYTES

    def _evict(self) -> None:
        """Writes changes, and empties the cache: the batch touches more than may be cached."""
        self._storage.write(self._dirty())
        self._loaded.clear()
        self._slots.clear()
        self._cached_bytes = 0

    def _load_all(self) -> None:
        missing = [number for number in range(self.shape.buckets) if number not in self._loaded]
        for start in range(0, len(missing), BUCKETS_PER_READ):
            self._load(missing[start : start + BUCKETS_PER_READ])

    def _load(self, numbers: Sequence[int]) -> None:
        for number, data in zip(numbers, self._storage.read([(self.name, number) for number in numbers]), strict=True):
            bucket = Bucket() if data is None else Bucket(self._decode_bucket(number, data), unpacked_size(data))
            self._loaded[number] = bucket
            self._cached_bytes += bucket.size

    def _decode_bucket(self, number: int, data: bytes) -> dict[Any, Any]:
        return decode(data, f"{self._where}, bucket {number}")

    # -- the end of a batch -----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[Change]:
        """Splits full buckets, and yields changes; `inline` and `shape` are up to date afterwards."""
        if not self.shape.buckets:
            self._inline_or_spill()
        if self.shape.buckets:
            self._add_buckets()
            yield from self._dirty()
        if self.shape.buckets and not self.shape.entries:
            self._move_to_root()

    def _move_to_root(self) -> None:
        """Moves the empty store back to the root, since all its buckets are gone."""
        self.shape = StoreSize()
        self._cached_bytes = 0
        self._loaded.clear()
        self._slots.clear()

    def _inline_or_spill(self) -> None:
        """Keeps the store in the root, or moves it to buckets."""
        if not self._root.dirty:
            return
        small = len(self._root.entries) <= INLINE_BYTES // 8
        self.inline = encode(self._root.entries) if small and self._root.entries else b""
        self._root.dirty = False
        size = unpacked_size(self.inline) if self.inline else 0
        if not small or size > INLINE_BYTES:
            self._weight = max(size / len(self._root.entries), 1) if size else DEFAULT_ENTRY_BYTES
            self._loaded[0] = Bucket(self._root.entries, dirty=True)
            self.shape.buckets = 1
            self._root, self.inline = Bucket(), b""
            self._slots.clear()

    def _add_buckets(self) -> None:
        """Adds buckets as the entries require; a store never shrinks, except when it is empty."""
        before = self.shape.buckets
        required = min(self.shape.entries, int(self.shape.entries * self._weight / BUCKET_BYTES))
        if required >= 2 * before:
            self._redistribute(required)
        while self.shape.buckets < required:
            self._split()
        if self.shape.buckets > before:
            self._slots.clear()

    def _redistribute(self, buckets: int) -> None:
        """Redistributes all entries, for a store that this batch has more than doubled."""
        self._load_all()
        before = self._loaded
        self.shape.buckets = buckets
        # Existing buckets retain their stored size; they are written or removed in any case.
        self._loaded = {
            number: Bucket(size=before[number].size if number in before else 0) for number in range(buckets)
        }
        for bucket in before.values():
            for key, value in bucket.entries.items():
                self._loaded[self.shape.number(key)].entries[key] = value
        for bucket in self._loaded.values():
            bucket.dirty = bool(bucket.entries or bucket.size)

    def _split(self) -> None:
        """Creates bucket number `buckets`, by splitting the one whose number lacks the highest bit."""
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
                yield (self.name, number), self._encode_bucket(bucket)

    def _encode_bucket(self, bucket: Bucket) -> bytes | None:
        data = encode(bucket.entries) if bucket.entries else None
        size = unpacked_size(data) if data else 0
        self.shape.size += size - bucket.size
        bucket.size, bucket.dirty = size, False
        return data


StoreRoot = tuple[int, int, int, bytes]
"""A store in the root: its size, and its entries while they are inline."""


@dataclass
class KeyGroupState:
    """All stores of a key group. Call `save` at the end of its batch.

    `touches` is the number of records in the batch, which decides how much is read at once.
    """

    storage: StateStorage
    key_group: int | None = None
    touches: int = 0
    stores: dict[str, BucketStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._where = "" if self.key_group is None else f"key group {self.key_group}, "
        data = self.storage.read([ROOT])[0]
        self._roots: dict[str, StoreRoot] = decode(data, f"{self._where}root") if data else {}

    def store(self, name: str) -> BucketStore:
        if name not in self.stores:
            *shape, inline = self._roots.get(name, (0, 0, 0, b""))
            self.stores[name] = BucketStore(name, self.storage, StoreSize(*shape), inline, self._where, self.touches)
        return self.stores[name]

    @property
    def entries(self) -> int:
        """The number of entries in the key group, over all stores."""
        known = sum(entries for name, (entries, *_) in self._roots.items() if name not in self.stores)
        return known + sum(map(len, self.stores.values()))

    def save(self) -> None:
        self.storage.write(self._changes())

    def close(self) -> None:
        """Releases all entries.

        Steps and their context reference each other, and their stores: the garbage collector would detect that only by
        scanning every entry.
        """
        for store in self.stores.values():
            store.close()

    def _changes(self) -> Iterator[Change]:
        for store in self.stores.values():
            yield from store.changes()
        root = self._roots | {name: _root_of(store) for name, store in self.stores.items()}
        root = {name: entry for name, entry in root.items() if entry[0]}
        if root != self._roots:
            yield ROOT, encode(root) if root else None
            self._roots = root


def _root_of(store: BucketStore) -> StoreRoot:
    return store.shape.entries, store.shape.buckets, store.shape.size, store.inline
