"""Quotas per user, as Kafka has them: requests, bytes and rows a second, push queries and tails at once.

What a request costs is known only afterwards, so it is charged afterwards: a user beyond a quota finds the next request
refused, with the time after which it fits, and a response or a body that goes on is slowed down.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace

from headrace.errors import TooManyRequests
from headrace.settings.sections import QuotaSettings

_BURST_SECONDS = 2.0  # of a quota that is not used, which may be used later
_LONGEST_SECONDS = 30.0  # to wait after a request, however large it was
_MAX_KNOWN = 10_000  # principals whose usage is remembered
_NAMES = frozenset(item.name for item in fields(QuotaSettings))
Now = Callable[[], float]


class TokenBucket:
    """A rate per second. It can be overdrawn, and fills up again."""

    def __init__(self, rate: float, now: Now = time.monotonic) -> None:
        self._rate, self._now = rate, now
        self._level, self._at = rate * _BURST_SECONDS, now()

    def charge(self, count: float) -> None:
        now = self._now()
        filled = min(self._level + (now - self._at) * self._rate, self._rate * _BURST_SECONDS)
        self._level, self._at = max(filled - count, -self._rate * _LONGEST_SECONDS), now

    def wait_seconds(self) -> float:
        """The seconds until the bucket is not overdrawn any more."""
        return max(0.0, -self._level / self._rate - (self._now() - self._at))


class Usage:
    """What one principal uses. Thread-safe: rows are charged where they arise."""

    def __init__(self, principal: str, quota: QuotaSettings, now: Now = time.monotonic) -> None:
        self.principal, self._now = principal, now
        self._lock = threading.Lock()
        self.streams = 0
        self.set_quota(quota)

    def set_quota(self, quota: QuotaSettings) -> None:
        """Apply another quota from now on; what was used before is forgotten."""
        self.quota = quota
        rates = {
            "quota.requests_per_second": quota.requests_per_second,
            "quota.bytes_in_per_second": quota.bytes_in_per_second,
            "quota.bytes_out_per_second": quota.bytes_out_per_second,
            "quota.rows_per_second": quota.rows_per_second,
        }
        self._buckets = {name: TokenBucket(float(rate), self._now) for name, rate in rates.items() if rate}

    def charge(self, name: str, count: int) -> None:
        if (bucket := self._buckets.get(name)) is not None:
            with self._lock:
                bucket.charge(count)

    def wait_seconds(self) -> float:
        """The seconds until the principal is within all quotas again."""
        return max((bucket.wait_seconds() for bucket in self._buckets.values()), default=0.0)

    def begin_request(self) -> None:
        """Charge a request, or refuse it."""
        for name, bucket in self._buckets.items():
            if (wait := bucket.wait_seconds()) > 0:
                raise self._exceeded(f"{self.principal} is above the quota {name}", wait)
        self.charge("quota.requests_per_second", 1)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a push query or a tail for the block."""
        with self._lock:
            if 0 < self.quota.push_queries <= self.streams:
                raise self._exceeded(f"{self.principal} has {self.streams} push queries and tails, quota.push_queries")
            self.streams += 1
        try:
            yield
        finally:
            with self._lock:
                self.streams -= 1

    def _exceeded(self, what: str, seconds: float = 1.0) -> TooManyRequests:
        error = TooManyRequests(what, fix="come back after the time in Retry-After, or ask an admin for a larger quota")
        error.seconds = seconds
        return error


class Quotas:
    """The usage of all principals. Event loop only."""

    def __init__(self, quota_of: Callable[[str], QuotaSettings]) -> None:
        self._quota_of = quota_of
        self._known: OrderedDict[str, Usage] = OrderedDict()
        self.refused = 0

    def usage(self, principal: str) -> Usage | None:
        """The usage of a principal; None if it has no quota."""
        quota = self._quota_of(principal)
        if not _is_set(quota) and principal not in self._known:
            return None
        usage = self._known.pop(principal, None) or Usage(principal, quota)
        if usage.quota != quota:
            usage.set_quota(quota)
        self._known[principal] = usage
        if len(self._known) > _MAX_KNOWN:
            self._forget()
        return usage

    def _forget(self) -> None:
        """Forget the principal that came least recently and has nothing open."""
        idle = next((name for name, usage in self._known.items() if not usage.streams), None)
        if idle is not None:
            del self._known[idle]


def user_quota(settings: QuotaSettings, own: Mapping[str, int] | None) -> QuotaSettings:
    """The quota of a user: the settings, except for those that are set for the user."""
    return settings if own is None else replace(settings, **{name: own[name] for name in _NAMES & own.keys()})


def _is_set(quota: QuotaSettings) -> bool:
    rates = quota.requests_per_second, quota.bytes_in_per_second, quota.bytes_out_per_second, quota.rows_per_second
    return any(rates) or quota.push_queries > 0


USAGE: ContextVar[Usage | None] = ContextVar("usage", default=None)
"""The usage of the principal whose request is being served, if quotas are set."""


def charge_rows(count: int) -> None:
    """Charge rows that were read or written to the principal of the request."""
    if (usage := USAGE.get()) is not None:
        usage.charge("quota.rows_per_second", count)


@contextmanager
def open_stream() -> Iterator[None]:
    """Count a push query or a tail of the principal of the request; raises TooManyRequests above the quota."""
    if (usage := USAGE.get()) is None:
        yield
        return
    with usage.stream():
        yield
