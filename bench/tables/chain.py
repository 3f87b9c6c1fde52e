"""Table `chain`: queries in memory beside a loop written by hand for each. Targets: bench/settings/chain.toml."""

from __future__ import annotations

from bench.harness.case import OURS, Case, Table
from bench.tables import chain_loops, chain_queries
from bench.tables.chain_rows import side

TABLE = Table(
    "chain",
    "Queries in memory, on one core, beside a loop written by hand",
    (
        Case(
            "filter",
            "a condition and a computed column",
            {OURS: side(chain_queries.filter), "loop": side(chain_loops.filter)},
        ),
        Case(
            "keyed-count",
            "rows per key, each change sent on",
            {OURS: side(chain_queries.keyed_count), "loop": side(chain_loops.keyed_count)},
        ),
        Case(
            "windowed-count",
            "rows per key and minute, each change sent on, windows closed as time goes by",
            {OURS: side(chain_queries.windowed_count), "loop": side(chain_loops.windowed_count)},
        ),
        Case(
            "stream-table-join",
            "each row with the table's row of its key",
            {OURS: side(chain_queries.stream_table_join), "loop": side(chain_loops.stream_table_join)},
        ),
    ),
)
