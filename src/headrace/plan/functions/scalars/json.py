"""Functions over JSON text. Unless documented otherwise, invalid JSON is an error, which gives null."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.functions.java import json_tree
from headrace.plan.limits import cache_short, check_items, check_length

AREA = "json"

_STEP = re.compile(r"""\.([^.\[\]]+)|\[\s*(-?\d+)\s*\]|\[\s*"((?:[^"\\]|\\.)*)"\s*\]|\[\s*'((?:[^'\\]|\\.)*)'\s*\]""")


@cache_short(1000)
def _steps(path: str) -> tuple[str, ...]:
    """Splits `$.a[0]["b"]` into its steps."""
    if not path.startswith("$"):
        raise ValueError(f"the JSON path '{path}' does not begin with $")
    steps: list[str] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"the JSON path '{path}' cannot be understood from character {at + 1} on")
        steps.append(next(re.sub(r"\\(.)", r"\1", name) for name in step.groups() if name is not None))
        at = step.end()
    return tuple(steps)


def extract(text: str, path: str) -> str | None:
    value = json_tree.read(text)
    for step in _steps(path):
        value = _inside(value, step)
        if value is json_tree.MISSING:
            return None
    return None if value is json_tree.MISSING else json_tree.plain(value)


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, json_tree.MISSING)
    if isinstance(value, list) and re.fullmatch(r"\d+", step) and int(step) < len(value):
        return value[int(step)]
    return json_tree.MISSING


def is_json(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return json_tree.read(text) is not json_tree.MISSING
    except (ValueError, RecursionError):
        return False


def array_contains(text: str, target: Any) -> bool | None:
    if text is None:
        return None
    try:
        items = json_tree.read(text)
    except ValueError:
        return False
    return isinstance(items, list) and any(_same(item, target) for item in items)


def _same(item: Any, target: Any) -> bool:
    """Compares numbers by kind: one with a decimal point never equals one without, and the scale of decimals counts."""
    if isinstance(item, Decimal) and isinstance(target, float):
        return float(item) == target
    if isinstance(item, Decimal) and isinstance(target, Decimal):
        return item == target and item.as_tuple().exponent == target.as_tuple().exponent
    return type(item) is type(target) and item == target


def array_length(text: str) -> int | None:
    items = json_tree.read(text)
    return len(items) if isinstance(items, list) else None


def concat(*texts: str | None) -> str | None:
    if any(text is None for text in texts):
        return None
    values = [json_tree.read(text) for text in texts if text is not None]
    if any(value is json_tree.MISSING for value in values):
        return None
    check_length(sum(len(text) for text in texts if text is not None))
    first, *others = values
    return json_tree.write(_joined(values) if others else first)


def _joined(values: list[Any]) -> Any:
    if all(isinstance(value, dict) for value in values):
        return {name: inner for value in values for name, inner in value.items()}
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def items(text: str) -> list[str]:
    array = json_tree.read(text)
    if not isinstance(array, list):
        raise ValueError("not a JSON array")
    check_items(len(array))
    return [json_tree.write(item) for item in array]


def keys(text: str) -> list[str] | None:
    document = json_tree.read(text)
    return list(document) if isinstance(document, dict) else None


def records(text: str) -> dict[str, str] | None:
    document = json_tree.read(text)
    return {name: json_tree.plain(inner) for name, inner in document.items()} if isinstance(document, dict) else None


def to_json(kinds: Sequence[pa.DataType]) -> Callable[[Any], str]:
    return json_tree.writer(kinds[0])


FUNCTIONS = (
    Function(
        "EXTRACTJSONFIELD",
        "The value at a path such as $.a[0].b of a JSON string, as a string; null if the path does not exist.",
        never_growing(Overload("(json: string, path: string) -> string", extract)),
        ("EXTRACTJSONFIELD('{\"a\": [1, 2.50]}', '$.a[1]')", "'2.50'"),
        area=AREA,
    ),
    Function(
        "IS_JSON_STRING",
        "Whether the string is valid JSON; false for null and for an empty string.",
        (Overload("(text: string) -> boolean", is_json, NullRule.PASS),),
        ("IS_JSON_STRING('[1, 2]')", "true"),
        area=AREA,
    ),
    Function(
        "JSON_ARRAY_CONTAINS",
        "Whether a JSON array contains a value; false if the string is not an array.",
        (Overload("(json: string, value: T) -> boolean", array_contains, NullRule.PASS),),
        ("JSON_ARRAY_CONTAINS('[1, 2, 3]', 3)", "true"),
        area=AREA,
    ),
    Function(
        "JSON_ARRAY_LENGTH",
        "The number of items of a JSON array; null if the string is not an array.",
        (Overload("(json: string) -> int", array_length),),
        ("JSON_ARRAY_LENGTH('[1, 2, 3]')", "3"),
        area=AREA,
    ),
    Function(
        "JSON_CONCAT",
        "Merges JSON objects, the later value of a name winning; or concatenates arrays. "
        "Any other value counts as an array of one item.",
        (Overload("(json: string...) -> string", concat, NullRule.PASS),),
        ("JSON_CONCAT('[1, 2]', '3')", "'[1,2,3]'"),
        area=AREA,
    ),
    Function(
        "JSON_ITEMS",
        "The items of a JSON array, each as a JSON string.",
        (Overload("(json: string) -> array<string>", items),),
        ("JSON_ITEMS('[1, {\"a\": 2}]')", "ARRAY['1', '{\"a\":2}']"),
        area=AREA,
    ),
    Function(
        "JSON_KEYS",
        "The names of a JSON object; null if the string is not an object.",
        (Overload("(json: string) -> array<string>", keys),),
        ('JSON_KEYS(\'{"a": 1, "b": 2}\')', "ARRAY['a', 'b']"),
        area=AREA,
    ),
    Function(
        "JSON_RECORDS",
        "A map from the names of a JSON object to its values as strings; null if the string is not an object.",
        (Overload("(json: string) -> map<string, string>", records),),
        ("JSON_RECORDS('{\"a\": 1}')", "MAP('a' := '1')"),
        area=AREA,
    ),
    Function(
        "TO_JSON_STRING",
        "Any value as a JSON string; null becomes the string null.",
        (Overload("(value: any) -> string", to_json, NullRule.PASS, typed=True),),
        ("TO_JSON_STRING(ARRAY[1, 2])", "'[1,2]'"),
        area=AREA,
    ),
)
