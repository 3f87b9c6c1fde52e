"""Operators over stored state: any batches, saved and reopened, give the results of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.engine.record.state import KeyGroupState
from headrace.plan.chain.interpreter import Chain
from headrace.plan.steps import Context, Store
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage


class Diary(hr.Operator):
    """Remembers all it has seen, in every kind of value, with two timers that it puts off and cancels."""

    output: ClassVar[str] = "what STRING"

    def on_event(self, event: hr.Event, ctx: hr.KeyContext) -> None:
        seen = ctx.state or {"words": [], "by": {}, "last": (None, 0.5, Decimal("1.10"), b"\0", True)}
        if event.word == "forget":
            ctx.state = None
            ctx.cancel_timer("long")
            return
        seen["words"].append(event.word)
        seen["by"][event.word] = seen["by"].get(event.word, 0) + 1
        seen["last"] = (event.word, event.time / 3, Decimal(event.time) / 100, event.word.encode(), event.time > 9)
        ctx.state = seen
        ctx.set_timer(event.time + 7)
        ctx.set_timer(event.time + 2 * len(event.word), "long")
        if event.word == "fail":
            raise ValueError("it fails")

    def on_timer(self, timer: hr.Timer, ctx: hr.KeyContext) -> None:
        ctx.emit(what=f"{timer.name}: {ctx.state}")
        if timer.name and ctx.state:
            ctx.state["words"].clear()
            ctx.set_timer(timer.time + 3)


ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.sampled_from(["hi", "forget", "fail", "much longer"])),
    max_size=25,
)
Opened = Callable[[], tuple[Callable[[str], Store], Callable[[], None]]]
"""Stores, and how to save them."""


def run(rows: list[tuple[int, str, str]], cuts: list[int], opened: Opened) -> tuple[list[Any], list[Any]]:
    app = hr.App()
    app.stream("rows", "k STRING KEY, word STRING").operate(Diary).to_stream("diary")
    query = app.catalog.queries["CSAS_DIARY_0"]
    out: list[Any] = []
    problems: list[Any] = []
    for start, end in pairwise([0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]):
        stores, save = opened()
        chain = Chain(query, Context(stores, problems.append))
        out += chain.feed("rows", [(at, (key,), (word,)) for at, key, word in rows[start:end]])
        save()
    stores, save = opened()
    out += Chain(query, Context(stores, problems.append)).tick(1_000)
    save()
    return out, problems


@given(ROWS, st.lists(st.integers(0, 25), max_size=6))
def test_any_batches_with_reopened_state_give_the_same_results(
    rows: list[tuple[int, str, str]], cuts: list[int]
) -> None:
    plain: defaultdict[str, Store] = defaultdict(dict)
    storage = MemoryStateStorage()

    def in_buckets() -> tuple[Callable[[str], Store], Callable[[], None]]:
        state = KeyGroupState(storage, key_group=0)
        return state.store, lambda: state.save() and None

    expected = run(rows, [], lambda: (plain.__getitem__, lambda: None))
    assert run(rows, cuts, in_buckets) == expected
