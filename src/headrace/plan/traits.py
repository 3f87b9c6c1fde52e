"""Facts about a kind of plan node that planning, execution and upgrades depend on.

A node class declares its traits where it is defined:

    @dataclass(frozen=True)
    class Filter(Node, traits=Traits(stateful=False, timed=False, realtime=True, clause="WHERE")):

A class without traits is refused when it is defined, so no table elsewhere can forget a new kind of node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class ValueColumns(Enum):
    """Where the value columns of a node's rows come from, which decides what can be pruned below it."""

    INPUT = auto()
    """They are those of its input, perhaps followed by its own."""
    OWN = auto()
    """It computes them: of its input it reads what its expressions name."""
    SELECTED = auto()
    """It computes each of them by one expression, and can leave out those that nothing reads."""
    BOTH_INPUTS = auto()
    """They are those of its left input, followed by those of its right one."""
    UNKNOWN = auto()
    """It may read all columns of its inputs."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    stateful: bool
    """The node keeps state of its own."""
    timed: bool
    """The node can have a deadline: it needs ticks when its input is silent."""
    realtime: bool
    """The node handles each record alone, so Spark's real-time trigger can run it."""
    values: ValueColumns = ValueColumns.UNKNOWN
    """Where the value columns come from."""
    preserves_key: bool = True
    """Rows leave under the key they came with."""
    single_key_group: bool = False
    """The node needs more than one key, or the time of the whole stream: its query has one key group."""
    in_pull_queries: bool = False
    """A pull query may contain the node."""
    not_in_sparksql: str | None = None
    """Why Spark SQL cannot run the node over a bounded read; None if it can."""
    not_upgradable: str | None = None
    """ksqlDB's name of the step, if CREATE OR REPLACE cannot take over its state; None if it can."""
    clause: str | None = None
    """The clause that a user wrote, for messages."""
    state_name: str | None = None
    """The node's name in checkpoints, where it differs from the class name in lower case."""
