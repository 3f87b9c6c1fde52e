"""Table `serve`: a server under load, over HTTP on this machine. Workloads and targets: bench/settings/serve.toml."""

from __future__ import annotations

from bench.harness.case import OURS, Case, Side, Table
from bench.tables import (
    serve_console,
    serve_inserts,
    serve_overload,
    serve_pause,
    serve_pulls,
    serve_pushes,
    serve_statements,
)

TABLE = Table(
    "serve",
    "A server under load",
    (
        Case(
            "pull",
            "single rows of a table by key: as fast as it goes, and the latency at a fixed rate",
            {OURS: Side(serve_pulls.http1), "http2": Side(serve_pulls.http2)},
            unit="queries",
        ),
        Case(
            "push-shared",
            "all ask the same; from the intended append until a subscriber holds the row",
            {OURS: Side(serve_pushes.pushed)},
            unit="rows",
        ),
        Case(
            "push-different",
            "twenty different queries; from the intended append until a subscriber holds the row",
            {OURS: Side(serve_pushes.pushed)},
            unit="rows",
        ),
        Case("insert-lines", "lines of JSON, each acknowledged", {OURS: Side(serve_inserts.lines)}, unit="rows"),
        Case("insert-arrow", "batches of Arrow", {OURS: Side(serve_inserts.arrow)}, unit="records"),
        Case(
            "statements",
            "ten active queries and forty idle ones; from the intended append until the result can be read",
            {OURS: Side(serve_statements.statements)},
            unit="rows",
        ),
        Case(
            "pause",
            "a query pauses in a batch of a minute; the latency of other requests, by kind as a ratio to before",
            {OURS: Side(serve_pause.pause)},
            unit="requests",
        ),
        Case(
            "overload",
            "far more requests than the server can serve; the server's health, and the pulls of a user who goes on",
            {OURS: Side(serve_overload.overload)},
            unit="queries",
        ),
        Case(
            "console",
            "people look on while records flow: until a page is shown, and what that costs the server",
            {OURS: Side(serve_console.console)},
        ),
    ),
)
