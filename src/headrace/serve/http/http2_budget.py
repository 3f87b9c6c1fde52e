"""Bounds what a client may cost: new connections; of HTTP/2 also frames without progress, resets and streams.

A budget is a bucket of tokens. Frames that only cost take tokens, responses that the client takes give some, and time
gives the rest. Addresses have budgets, too, so that nothing is gained by a new connection.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from headrace.access.client_key import LOOPBACK, client_key
from headrace.serve.http.trusted_proxies import Networks, is_proxy

MAX_STREAMS = 100
"""Maximum streams of a connection, and requests that it has in progress."""
MAX_STREAMS_PER_ADDRESS = 2_000
ADDRESS_FACTOR = 10  # an address has so many times the tokens of a connection
_FREE_FRAMES = 10  # of a connection, so that a client can begin while another one of its address floods
_BURST_SECONDS = 5  # of new connections, which a client may open at once
_MAX_ADDRESSES = 10_000  # that are remembered after their last connection


class Flood(Exception):
    """A client exceeds its budget. The text is the reason, as counted."""


@dataclass
class TokenBucket:
    """Tokens up to `burst`; `rate` of them come back per second."""

    burst: float
    rate: float

    def __post_init__(self) -> None:
        self._left, self._at = self.burst, 0.0

    def take(self, now: float) -> bool:
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give(self, count: float) -> None:
        self._left = min(self.burst, self._left + count)


class Tokens:
    """The tokens of a connection, or of an address."""

    def __init__(self, factor: int = 1) -> None:
        self.resets = TokenBucket(100 * factor, 10 * factor)
        self.frames = TokenBucket(1_000 * factor, 100 * factor)
        self.streams = 0
        self.connections = 0


class ConnectionBudget:
    """What one connection may still cost, and its address."""

    def __init__(self, address: Tokens) -> None:
        self._own, self._address = Tokens(), address
        self._free_frames = _FREE_FRAMES
        address.connections += 1

    def charge_reset(self, now: float) -> None:
        """For a stream that ends before its response."""
        if not (self._own.resets.take(now) and self._address.resets.take(now)):
            raise Flood("http2-resets")

    def charge_frame(self, now: float) -> None:
        """For a frame that brings no request, and no part of one."""
        if self._free_frames:
            self._free_frames -= 1
        elif not (self._own.frames.take(now) and self._address.frames.take(now)):
            raise Flood("http2-frames")

    def credit_response(self) -> None:
        for tokens in (self._own, self._address):
            tokens.resets.give(2)
            tokens.frames.give(4)

    def credit_data(self) -> None:
        """For a frame of a response. The client answers it with window updates, for the stream and the connection."""
        self._own.frames.give(3)
        self._address.frames.give(3)

    def open_stream(self) -> bool:
        """Count one more request in progress, unless there are too many."""
        if self._own.streams >= MAX_STREAMS or self._address.streams >= MAX_STREAMS_PER_ADDRESS:
            return False
        self._own.streams += 1
        self._address.streams += 1
        return True

    def close_stream(self) -> None:
        self._own.streams -= 1
        self._address.streams -= 1

    def close(self) -> None:
        self._address.connections -= 1


class AddressTokens(Tokens):
    """The tokens of an address, from which `rate` new connections a second may come."""

    def __init__(self, rate: float) -> None:
        super().__init__(ADDRESS_FACTOR)
        self.new_connections = TokenBucket(rate * _BURST_SECONDS, rate)


class AddressBudgets:
    """The tokens of all clients by their addresses, those that connected last at the end.

    New connections of this machine and of trusted proxies, which are those of many clients, have no limit.
    """

    def __init__(self, rate: float = 0, proxies: Networks = ()) -> None:
        self.rate, self._proxies = rate, proxies
        self._tokens: OrderedDict[str, AddressTokens] = OrderedDict()

    def admits_connection(self, address: str, now: float) -> bool:
        """Charge one more connection to its address, unless too many were opened lately."""
        if not self.rate or client_key(address) == LOOPBACK or is_proxy(address, self._proxies):
            return True
        return self._of(address).new_connections.take(now)

    def connect(self, address: str) -> ConnectionBudget:
        return ConnectionBudget(self._of(address))

    def _of(self, address: str) -> AddressTokens:
        client = client_key(address)
        if (tokens := self._tokens.get(client)) is None:
            tokens = self._tokens[client] = AddressTokens(self.rate)
        self._tokens.move_to_end(client)
        if len(self._tokens) > _MAX_ADDRESSES:
            self._forget_one()
        return tokens

    def _forget_one(self) -> None:
        for address, tokens in self._tokens.items():
            if not tokens.connections and not tokens.streams:
                del self._tokens[address]
                return
