"""Random KSQL over four fixed sources, and random records for them, for property tests of the plan."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from hypothesis import strategies as st

from headrace.lang.ksql.statements.planner import Planner
from headrace.plan.actions import CreateSource
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from tests.ksql_parsing import parse

SOURCES = """
CREATE STREAM S (ID INT KEY, A INT, B STRING, C DOUBLE, L ARRAY<INT>) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE STREAM R (ID INT KEY, A INT, X BIGINT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');
CREATE TABLE T (ID INT PRIMARY KEY, V INT, W STRING) WITH (KAFKA_TOPIC='t', FORMAT='JSON');
CREATE TABLE U (ID INT PRIMARY KEY, V BIGINT) WITH (KAFKA_TOPIC='u', FORMAT='JSON');
"""
_COLUMNS = {
    "s": {"A": st.integers(-3, 3), "B": st.sampled_from(["", "a", "bb", "Zz"]), "C": st.floats(-2, 2, width=16)},
    "r": {"A": st.integers(-3, 3), "X": st.integers(-(1 << 40), 1 << 40)},
    "t": {"V": st.integers(-3, 3), "W": st.sampled_from(["x", "y"])},
    "u": {"V": st.integers(-3, 3)},
}


@dataclass(frozen=True)
class Example:
    """A statement over `SOURCES` and records in order of arrival."""

    text: str
    records: tuple[tuple[str, RawRecord], ...]

    @property
    def query(self) -> Query:
        return planned(self.text)


def planned(text: str) -> Query:
    """The query of the last statement."""
    planner = Planner(Catalog())
    parsed = parse(SOURCES + text)
    assert not parsed.errors, parsed.errors
    actions = [planner.plan(statement, own) for statement, own in parsed.statements]
    last = actions[-1]
    assert isinstance(last, CreateSource)
    assert last.query is not None
    return last.query


# -- expressions ----------------------------------------------------------------------------------------------------


def numbers(columns: tuple[str, ...]) -> st.SearchStrategy[str]:
    leaf = st.one_of(st.sampled_from(columns), st.integers(-5, 5).map(str), st.just("2147483647"))
    return st.recursive(leaf, _larger_numbers, max_leaves=4)


def _larger_numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        inner.map("ABS({})".format),
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("CASE WHEN {} > 0 THEN {} ELSE {} END".format, inner, inner, inner),
    )


def conditions(columns: tuple[str, ...]) -> st.SearchStrategy[str]:
    number = numbers(columns)
    leaf = st.one_of(
        st.builds("{} {} {}".format, number, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), number),
        number.map("({}) IS NULL".format),
        st.builds("{} BETWEEN {} AND {}".format, number, number, number),
        st.builds("{} IN (1, {})".format, number, number),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            inner.map("NOT ({})".format),
        ),
        max_leaves=3,
    )


# -- statements -----------------------------------------------------------------------------------------------------

_WINDOWS = st.sampled_from(
    [
        "",
        "WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)",
        "WINDOW TUMBLING (SIZE 10 MILLISECONDS)",
        "WINDOW HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 4 MILLISECONDS, GRACE PERIOD 3 MILLISECONDS)",
        "WINDOW SESSION (6 MILLISECONDS, GRACE PERIOD 4 MILLISECONDS)",
    ]
)
_S = ("A", "ID")


def _where(columns: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), conditions(columns).map("WHERE {}".format))


PLAIN = st.builds(
    "CREATE STREAM O AS SELECT ID, ({} + 0) AS N, B, UCASE(B) AS UB, C FROM S {};".format, numbers(_S), _where(_S)
)
MOVED = st.builds(
    "CREATE STREAM O AS SELECT ({0} + 0) AS K, B, A, ID FROM S {1} PARTITION BY ({0} + 0);".format,
    numbers(_S),
    _where(_S),
)
ROWS = st.builds("CREATE STREAM O AS SELECT ID, EXPLODE(L) AS I, A FROM S {};".format, _where(_S))
COUNTED = st.builds(
    "CREATE TABLE O AS SELECT B, COUNT(*) AS N, SUM({}) AS T, COLLECT_LIST(A) AS L FROM S {} {} GROUP BY B {};".format,
    numbers(_S),
    _WINDOWS,
    _where(_S),
    st.sampled_from(["", "HAVING COUNT(*) > 1"]),
)
FINAL = st.just(
    "CREATE TABLE O AS SELECT B, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 2 "
    "MILLISECONDS) GROUP BY B EMIT FINAL;"
)
RECOUNTED = st.builds(
    "CREATE TABLE O AS SELECT W, COUNT(*) AS N, SUM(V) AS T FROM T {} GROUP BY W;".format, _where(("V", "ID"))
)
ENRICHED = st.builds(
    "CREATE STREAM O AS SELECT {} , S.B, T.W FROM S {} JOIN T ON {} = T.ID;".format,
    st.just("T.ID"),
    st.sampled_from(["", "LEFT"]),
    st.sampled_from(["S.ID", "S.A"]),
).filter(lambda text: "S.ID = T.ID" in text or "S.A = T.ID" in text)
PAIRED = st.builds(
    "CREATE STREAM O AS SELECT ROWKEY AS K, S.A, R.X, S.B FROM S {} JOIN R WITHIN {} ON ABS(S.ID) = ABS(R.ID);".format,
    st.sampled_from(["", "LEFT", "RIGHT", "FULL OUTER"]),
    st.sampled_from(
        ["5 MILLISECONDS", "(2 MILLISECONDS, 7 MILLISECONDS)", "5 MILLISECONDS GRACE PERIOD 3 MILLISECONDS"]
    ),
)
TABLES = st.builds(
    "CREATE TABLE O AS SELECT ROWKEY AS K, T.V AS A, T.W, U.V AS B FROM T FULL OUTER JOIN U ON T.ID = U.ID {};".format,
    st.sampled_from(["", "WHERE T.W = 'x'"]),
)
REFERENCED = st.builds(
    "CREATE TABLE O AS SELECT T.ID, T.W, U.V AS UV FROM T {} JOIN U ON T.V = U.ID;".format,
    st.sampled_from(["", "LEFT"]),
)
FIRST = st.builds(
    "CREATE STREAM O AS SELECT DISTINCT {} FROM S {} {};".format,
    st.sampled_from(["ID, A, B", "ON (ID) *", "ON (A, B) ID, A + 0 AS N, C", "ON (C, L) *", "ON (UCASE(B)) ID, B"]),
    st.sampled_from(
        [
            "",
            "WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)",
            "WINDOW TUMBLING (SIZE 10 MILLISECONDS)",
        ]
    ),
    _where(_S),
)
FIRST_MOVED = st.builds(
    "CREATE STREAM O AS SELECT DISTINCT {} A, B FROM S {} PARTITION BY A;".format,
    st.sampled_from(["", "ON (A)", "ON (B)", "ON (ID, A)"]),
    _where(_S),
)
FIRST_OF_MANY = st.builds(
    "CREATE STREAM O AS SELECT DISTINCT {} UNION ALL SELECT DISTINCT ON (ID) ID, A FROM R {};".format,
    st.sampled_from(["ID, EXPLODE(L) AS I FROM S", "ID, A FROM S WINDOW TUMBLING (SIZE 10 MILLISECONDS)"]),
    st.sampled_from(["", "WINDOW TUMBLING (SIZE 5 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)"]),
)
BEST = st.just("CREATE TABLE O AS SELECT ID, V FROM T ORDER BY V DESC LIMIT 2;")
BOTH = st.just("CREATE STREAM O AS SELECT ID, A FROM S UNION ALL SELECT ID, A FROM R;")

ELEMENTWISE = st.one_of(PLAIN, MOVED, ROWS, BOTH)
FIRSTS = st.one_of(FIRST, FIRST_MOVED, FIRST_OF_MANY)
STATEFUL = st.one_of(COUNTED, FINAL, FIRSTS, RECOUNTED, ENRICHED, PAIRED, TABLES, REFERENCED, BEST)
STATEMENTS = st.one_of(ELEMENTWISE, STATEFUL)


# -- records --------------------------------------------------------------------------------------------------------


@st.composite
def _record(draw: st.DrawFn, topic: str, time: int) -> RawRecord:
    key = draw(st.one_of(st.integers(-1, 2), st.none()) if topic in "sr" else st.integers(-1, 2))
    columns = {name: draw(st.one_of(values, st.none())) for name, values in _COLUMNS[topic].items()}
    if topic == "s":
        columns["L"] = draw(st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=3)))
    gone = draw(st.integers(0, 9)) == 0
    value = None if gone else orjson.dumps(columns)
    return RawRecord(None if key is None else orjson.dumps(key), value, time)


@st.composite
def examples(draw: st.DrawFn, statements: st.SearchStrategy[str] = STATEMENTS) -> Example:
    """A statement, and records of the topics it reads; times go up and, now and then, back."""
    text = draw(statements)
    topics = sorted({source.topic for source in planned(text).sources})
    records, now = [], 0
    for _ in range(draw(st.integers(0, 25))):
        now = max(0, now + draw(st.integers(-8, 12)))
        topic = draw(st.sampled_from(topics))
        records.append((topic, draw(_record(topic, now))))
    return Example(text, tuple(records))
