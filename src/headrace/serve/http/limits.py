"""How much a client may send before the body of a request, and how long it may take."""

from __future__ import annotations

from collections import Counter

MAX_HEAD_BYTES = 64 << 10
"""Maximum bytes of a request before its body."""
MAX_PIPELINED = 100
"""Maximum requests that wait on a connection of HTTP/1.1 for the response to an earlier one."""
MAX_MESSAGE_BYTES = 64 << 10
"""Maximum bytes of a received WebSocket message: clients send little."""
HEAD_TIMEOUT = 20.0
"""Seconds to receive the head, from its first byte on."""
HANDSHAKE_TIMEOUT = 10.0
"""Seconds for the TLS handshake."""
IDLE_TIMEOUT = 75
"""Seconds that a connection may be idle between two requests."""
STALL_TIMEOUT = 60.0
"""Seconds in which the client must read a part of a response that waits (HTTP/2)."""
SLOWEST = 1024
"""Minimum bytes per second at which it must read, on average, after these seconds."""
SHUTDOWN_GRACE = 3
"""Seconds for requests in progress when the server stops."""

REJECTIONS: Counter[str] = Counter()
"""How many connections and streams this process has rejected, by reason."""
