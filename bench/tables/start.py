"""Table `start`: how long people wait for the first rows. Workloads and targets: bench/settings/start.toml."""

from __future__ import annotations

from bench.harness.case import OURS, Case, Side, Table
from bench.tables import start_commands, start_server

TABLE = Table(
    "start",
    "Starting, restarting and waking up",
    (
        Case(
            "first-query",
            "a server's first CREATE TABLE AS SELECT, sent when it listens: until the table has its row",
            {OURS: Side(start_server.first_query)},
            unit="starts",
        ),
        Case(
            "warm-query",
            "the first and the second one of a server that has been up for a while; INSERT until the view has the row",
            {OURS: Side(start_server.warm_query)},
            unit="starts",
        ),
        Case("idle", "what a warm server costs that nobody uses", {OURS: Side(start_server.idle)}, unit="servers"),
        Case(
            "restart",
            "kill -9 of a server with five queries: until it answers, and until all of them run again",
            {OURS: Side(start_server.restart)},
            unit="restarts",
        ),
        Case(
            "wake-up",
            "a suspended query gets a row: until the view has it",
            {OURS: Side(start_server.wake_up)},
            unit="wake-ups",
        ),
        Case(
            "run-idle",
            "`headrace run --until-idle` of a script with two rows",
            {OURS: Side(start_commands.run_until_idle)},
            unit="runs",
        ),
        Case("demo", "`headrace demo` until it shows counts", {OURS: Side(start_commands.demo)}, unit="starts"),
    ),
    note="`rate` is one over the seconds of the case, so that `make ab` can compare two commits.",
)
