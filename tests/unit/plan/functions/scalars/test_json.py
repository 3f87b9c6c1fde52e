from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.plan import types
from tests.unit.plan.functions.function_call import run

DOC = '{"a": {"b": [1.50, "x", {"c d": null}]}, "@type": "T", "t": true, "e": 1e3}}'

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("EXTRACTJSONFIELD", (DOC, "$.a.b[0]"), "1.50"),
    ("EXTRACTJSONFIELD", (DOC, "$.a.b[1]"), "x"),
    ("EXTRACTJSONFIELD", (DOC, '$["a"]["b"][2]'), '{"c d":null}'),
    ("EXTRACTJSONFIELD", (DOC, "$['a'].b"), '[1.50,"x",{"c d":null}]'),
    ("EXTRACTJSONFIELD", (DOC, "$.@type"), "T"),
    ("EXTRACTJSONFIELD", (DOC, "$.t"), "true"),
    ("EXTRACTJSONFIELD", (DOC, "$.e"), "1E+3"),
    ("EXTRACTJSONFIELD", (DOC, "$.a.b[-1]"), None),
    ("EXTRACTJSONFIELD", (DOC, "$.a.b[9]"), None),
    ("EXTRACTJSONFIELD", (DOC, "$.a.b.x"), None),
    ("EXTRACTJSONFIELD", (DOC, "$.none.x"), None),
    ("EXTRACTJSONFIELD", ("[1, 2]", "$[1]"), "2"),
    ("EXTRACTJSONFIELD", ("", "$.a"), None),
    ("EXTRACTJSONFIELD", (None, "$.a"), None),
    ("IS_JSON_STRING", ("[1, 2]",), True),
    ("IS_JSON_STRING", ("null",), True),
    ("IS_JSON_STRING", ("abc",), False),
    ("IS_JSON_STRING", ("NaN",), False),
    ("IS_JSON_STRING", ("",), False),
    ("IS_JSON_STRING", (None,), False),
    ("JSON_ARRAY_CONTAINS", ('["Pink", null]', "Pink"), True),
    ("JSON_ARRAY_CONTAINS", ('["Pink"]', "Red"), False),
    ("JSON_ARRAY_CONTAINS", ("[1, 2]", 2), True),
    ("JSON_ARRAY_CONTAINS", ("[true]", 1), False),
    ("JSON_ARRAY_CONTAINS", ("[1.5]", 1.5), True),
    ("JSON_ARRAY_CONTAINS", ("[1]", 1.0), False),
    ("JSON_ARRAY_CONTAINS", ("[1.50]", Decimal("1.50")), True),
    ("JSON_ARRAY_CONTAINS", ("[1, null]", None), True),
    ("JSON_ARRAY_CONTAINS", ("[1]", None), False),
    ("JSON_ARRAY_CONTAINS", ("{}", 1), False),
    ("JSON_ARRAY_CONTAINS", ("x", 1), False),
    ("JSON_ARRAY_LENGTH", ('["a", [1, 2]]',), 2),
    ("JSON_ARRAY_LENGTH", ("{}",), None),
    ("JSON_ARRAY_LENGTH", ("",), None),
    ("JSON_CONCAT", ('{"a": 1}', '{"b": 2}', '{"a": {"c": 3}}'), '{"a":{"c":3},"b":2}'),
    ("JSON_CONCAT", ("[1, 2]", '{"a": 1}', "4"), '[1,2,{"a":1},4]'),
    ("JSON_CONCAT", ("null", "null"), "[null,null]"),
    ("JSON_CONCAT", ("[]", "[]"), "[]"),
    ("JSON_CONCAT", ("1",), "1"),
    ("JSON_CONCAT", ("1", "", "2"), None),
    ("JSON_CONCAT", ("1", None), None),
    ("JSON_ITEMS", ('[{"a": 1.0}, "b", null]',), ['{"a":1.0}', '"b"', "null"]),
    ("JSON_ITEMS", ("[]",), []),
    ("JSON_KEYS", ('{"b": 1, "a": 2}',), ["b", "a"]),
    ("JSON_KEYS", ("[]",), None),
    ("JSON_KEYS", ("",), None),
    ("JSON_RECORDS", ('{"a": "x", "b": [1], "c": 2}',), {"a": "x", "b": "[1]", "c": "2"}),
    ("JSON_RECORDS", ("1",), None),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_a_function_returns_its_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert run(name, *arguments) == result


NESTED = types.struct([("ID", types.INT), ("AT", types.array(types.TIMESTAMP)), ("P", types.decimal(4, 2))])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (types.INT, 1, "1"),
        (types.INT, None, "null"),
        (types.BOOLEAN, True, "true"),
        (types.DOUBLE, 1e10, "1.0E10"),
        (types.DOUBLE, float("nan"), '"NaN"'),
        (types.decimal(4, 2), Decimal("1.50"), "1.50"),
        (types.STRING, 'a"\\\n\x01ä', '"a\\"\\\\\\n\\u0001ä"'),
        (types.BYTES, b"!", '"IQ=="'),
        (types.DATE, 1, '"1970-01-02"'),
        (types.TIME, 3_661_000, '"01:01:01"'),
        (types.TIME, 3_600_000, '"01:00"'),
        (types.TIMESTAMP, 60220000000, '"1971-11-28T23:46:40.000"'),
        (types.TIMESTAMP, -1, '"1969-12-31T23:59:59.999"'),
        (types.map_of(types.STRING, types.array(types.INT)), {"id": [1, None]}, '{"id":[1,null]}'),
        (NESTED, {"ID": 1, "AT": [0], "P": None}, '{"ID":1,"AT":["1970-01-01T00:00:00.000"],"P":null}'),
        (types.NULL, None, "null"),
    ],
)
def test_a_value_becomes_json(kind: pa.DataType, value: Any, text: str) -> None:
    assert run("TO_JSON_STRING", value, kinds=[kind]) == text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("EXTRACTJSONFIELD", ("{", "$.a")),
        ("EXTRACTJSONFIELD", ("{}", "a")),
        ("EXTRACTJSONFIELD", ("{}", "$.a[")),
        ("JSON_ARRAY_LENGTH", ("x",)),
        ("JSON_ITEMS", ("{}",)),
        ("JSON_CONCAT", ("x", "1")),
    ],
)
def test_invalid_arguments_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"."):
        run(name, *arguments)
