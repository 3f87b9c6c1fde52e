"""headrace: a streaming platform on Apache Spark.

    import headrace as hr

    app = hr.App("clicks")
    clicks = app.stream("clicks", "user STRING KEY, page STRING, amount BIGINT", topic="clicks")
    clicks.group_by("page").agg(n=hr.count(), total=hr.sum("amount")).to_table("per_page")

Names are imported on first use, so a process that needs none of them pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace import testing as testing
    from headrace.apps.launch import deploy as deploy
    from headrace.apps.launch import run as run
    from headrace.apps.launch import start as start
    from headrace.apps.live_rows import LiveRows as LiveRows
    from headrace.apps.running_app import RunningApp as RunningApp
    from headrace.lang.python.app import App as App
    from headrace.lang.python.expressions import Expr as Expr
    from headrace.lang.python.expressions import col as col
    from headrace.lang.python.expressions import expr as expr
    from headrace.lang.python.expressions import lit as lit
    from headrace.lang.python.expressions import when as when
    from headrace.lang.python.functions import F as F
    from headrace.lang.python.functions import avg as avg
    from headrace.lang.python.functions import call as call
    from headrace.lang.python.functions import collect_list as collect_list
    from headrace.lang.python.functions import collect_set as collect_set
    from headrace.lang.python.functions import count as count
    from headrace.lang.python.functions import count_distinct as count_distinct
    from headrace.lang.python.functions import first as first
    from headrace.lang.python.functions import last as last
    from headrace.lang.python.functions import max as max
    from headrace.lang.python.functions import min as min
    from headrace.lang.python.functions import sum as sum
    from headrace.lang.python.operators import Event as Event
    from headrace.lang.python.operators import KeyContext as KeyContext
    from headrace.lang.python.operators import Operator as Operator
    from headrace.lang.python.operators import Timer as Timer
    from headrace.lang.python.relations import GroupedRelation as GroupedRelation
    from headrace.lang.python.relations import NamedRelation as NamedRelation
    from headrace.lang.python.relations import Relation as Relation
    from headrace.lang.python.windows import days as days
    from headrace.lang.python.windows import hopping as hopping
    from headrace.lang.python.windows import hours as hours
    from headrace.lang.python.windows import minutes as minutes
    from headrace.lang.python.windows import seconds as seconds
    from headrace.lang.python.windows import session as session
    from headrace.lang.python.windows import sliding as sliding
    from headrace.lang.python.windows import tumbling as tumbling

__version__ = "0.1.0"

_HOMES = {
    "lang.python.app": ("App",),
    "lang.python.expressions": ("Expr", "col", "expr", "lit", "when"),
    "lang.python.functions": (
        *("F", "avg", "call", "collect_list", "collect_set", "count", "count_distinct"),
        *("first", "last", "max", "min", "sum"),
    ),
    "lang.python.operators": ("Event", "KeyContext", "Operator", "Timer"),
    "lang.python.relations": ("GroupedRelation", "NamedRelation", "Relation"),
    "lang.python.windows": ("days", "hopping", "hours", "minutes", "seconds", "session", "sliding", "tumbling"),
    "apps.live_rows": ("LiveRows",),
    "apps.running_app": ("RunningApp",),
    "apps.launch": ("deploy", "run", "start"),
}
"""The public names of each module."""
_NAMES = {name: f"headrace.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("headrace.testing")
    if name not in _NAMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return [*_NAMES, "testing", "__version__"]
