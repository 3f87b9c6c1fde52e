"""Values of every type of a schema are read back unchanged from every log."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.contracts import Append, Log, TopicSpec
from headrace.schema import Schema, parse_type
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import columns

INF, NAN = float("inf"), float("nan")
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 999_000, tzinfo=UTC)

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, -(2**31), 2**31 - 1],
    "bigint": [0, -(2**63), 2**63 - 1, 2**53 + 1],
    "float": [0.0, -0.0, 1.5, INF, -INF, NAN, 3.4028234663852886e38],
    "double": [0.0, -0.0, 0.1, INF, -INF, NAN, 1.7976931348623157e308, 5e-324],
    "string": ["", "a", 'quotes " and \\', "ü \U0001f30a", "\x00\n"],
    "bytes": [b"", b"\x00\xff", b"text"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    "time": [time(0), time(12, 30), time(23, 59, 59, 999_000)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), MOMENT],
    "decimal(10,2)": [Decimal("0.00"), Decimal("-12345678.99"), Decimal("0.10")],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789")],
    "array<int>": [[], [1, None, -2]],
    "array<date>": [[date(2024, 2, 29), None]],
    "array<array<string>>": [[[], ["a", None], None]],
    "map<string,double>": [[], [("a", 1.5), ("", None), ("nan", NAN)]],
    "map<int,string>": [[(1, "one"), (-2, None)]],
    "map<bigint,bytes>": [[(2**53 + 1, b"\xff")]],
    "map<date,timestamp>": [[(date(2024, 2, 29), MOMENT)]],
    "map<boolean,decimal(5,1)>": [[(True, Decimal("1.5")), (False, None)]],
    "map<double,int>": [[(0.1, 1), (-2.0, 2)]],
    "struct<a int,`b c` array<time>>": [{"a": 1, "b c": [time(1, 2, 3)]}, {"a": None, "b c": None}],
    "struct<inner struct<at timestamp,data bytes>>": [{"inner": {"at": MOMENT, "data": b"\x00"}}, {"inner": None}],
    "array<struct<price decimal(9,3),tags map<string,string>>>": [
        [{"price": Decimal("1.500"), "tags": [("k", "v")]}, {"price": None, "tags": []}, None]
    ],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_read_back(log: Log, open_log: OpenLog, name: str, kind: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse(f"id int key, it {kind}")))
    given = pa.array([None, *VALUES[kind], None], parse_type(kind))
    ids = pa.array(range(len(given)), pa.int32())
    log.append([Append(name, pa.RecordBatch.from_arrays([ids, given], ["id", "it"]))])
    expected = list(zip(ids.to_pylist(), given.to_pylist(), strict=True))
    assert repr(columns(open_log(), name, "id", "it")) == repr(expected)  # repr: NaN is not NaN


def test_dates_and_times_beyond_pythons_calendar_are_read_back(log: Log, name: str) -> None:
    schema = Schema.parse("id int key, day date, at timestamp")
    log.create_topic(name, TopicSpec(schema=schema))
    days, moments = [-(2**31), 2**31 - 1], [-(2**63), 2**63 - 1]
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([1, 2], pa.int32()),
            pa.array(days, pa.int32()).cast(pa.date32()),
            pa.array(moments, pa.int64()).cast(schema["at"].type),
        ],
        ["id", "day", "at"],
    )
    log.append([Append(name, rows)])
    found = log.read(name, 0, 0).rows
    assert found.column("day").cast(pa.int32()).to_pylist() == days
    assert found.column("at").cast(pa.int64()).to_pylist() == moments
