"""The page of functions, from their declarations; and the rows that the examples of aggregates are computed from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from headrace.plan.functions import AGGREGATES, SCALARS
from headrace.plan.functions.declaration import AggregateFunction, Function, NullRule, Overload

Declared = Function | AggregateFunction

SAMPLE = """\
CREATE STREAM orders (
  id INT KEY, name STRING, country STRING, amount INT, weight DOUBLE, parts ARRAY<INT>
) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');

INSERT INTO orders VALUES (1, 'ann', 'SE', 2, 1.0, ARRAY[1, 1]);
INSERT INTO orders VALUES (2, 'bob', 'SE', 7, 3.5, ARRAY[7]);
INSERT INTO orders VALUES (3, 'ann', 'SE', 3, 1.5, ARRAY[3]);
"""

AREAS = {
    "aggregate": "Aggregates",
    "array": "Arrays",
    "bytes": "Bytes and digests",
    "choice": "Conditional functions",
    "geo": "Geography",
    "json": "JSON",
    "lambda": "Lambdas",
    "map": "Maps",
    "math": "Numbers",
    "regular expressions": "Regular expressions",
    "strings": "Strings",
    "table": "Table functions",
    "time": "Dates and times",
    "urls": "URLs",
}
"""Titles of the areas, in the order of the page."""


def declared() -> list[Declared]:
    """Every function once, by area and name."""
    order = list(AREAS)
    unique = {id(f): f for f in (*SCALARS.values(), *AGGREGATES.values())}
    return sorted(unique.values(), key=lambda f: (order.index(f.area), f.name))


def functions() -> Iterator[str]:
    yield "# Functions\n"
    yield (
        "Names are not case-sensitive. In a signature, a capital letter stands for any type, and for the same type"
        " wherever it occurs; `...` means zero or more arguments; `const` is a literal; `lambda(T) -> R` is written"
        " `x => ...`. A parameter also accepts smaller number types. The result is null if an argument is null, unless"
        " the function *handles nulls*. A call that fails returns null, and the record is reported.\n"
    )
    areas = [(area, list(those)) for area, those in groupby(declared(), lambda f: f.area)]
    yield "\n".join(f"- [{AREAS[area]}](#{_anchor(AREAS[area])}): {_names(those)}" for area, those in areas) + "\n"
    for area, those in areas:
        yield f"## {AREAS[area]}\n"
        yield from _preface(area)
        for function in those:
            yield from _function(function)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _names(those: list[Declared]) -> str:
    return ", ".join(f"[{f.name}](#{f.name.lower()})" for f in those)


def _preface(area: str) -> Iterator[str]:
    if area == "aggregate":
        yield "Aggregates require a `GROUP BY`. The examples are computed over these rows:\n"
        yield f"```ksql\n{SAMPLE}```\n"
    if area == "table":
        yield "Table functions in `SELECT` turn one row into several; the examples show these rows.\n"


def _function(function: Declared) -> Iterator[str]:
    yield f"### {function.name}\n"
    also = f" Also called {', '.join(f'`{a}`' for a in function.aliases)}." if function.aliases else ""
    yield f"{function.doc}{also}{_nulls(function)}{_repeats(function)}\n"
    call, result = function.example
    lines = [f"{function.name}{o.signature}" for o in function.overloads]
    yield "```\n" + "\n".join([*lines, "", f"{call}  =>  {result}"]) + "\n```\n"


def _nulls(function: Declared) -> str:
    if isinstance(function, AggregateFunction):
        return ""
    seeing = [o for o in function.overloads if isinstance(o, Overload) and o.nulls is NullRule.PASS]
    return " *Handles nulls.*" if seeing else ""


def _repeats(function: Declared) -> str:
    return "" if getattr(function, "repeatable", True) else " *Not deterministic.*"
