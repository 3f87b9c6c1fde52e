"""SELECT: the names, the order and the key of its columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadKey, BadName, BadQuery, BadType, StatementError, TypeMismatch
from tests.ksql_strategies import planned
from tests.unit.lang.ksql.query.test_joins import error_of

COLUMNS = ("A", "B", "C", "L")
ITEMS = st.one_of(
    st.sampled_from(COLUMNS).map(lambda name: (name, name)),
    st.tuples(st.sampled_from([*COLUMNS, "A + 1", "UCASE(B)"]), st.sampled_from(["X", "Y", "Z"])),
    st.sampled_from(["A + 1", "UCASE(B)", "L[1]", "1", "CAST(A AS STRING)"]).map(lambda text: (text, None)),
)


def columns(select: str, source: str = "s") -> tuple[list[str], list[str]]:
    relation = planned(f"CREATE STREAM x AS SELECT {select} FROM {source};").sink.relation
    return [field.name for field in relation.key], [field.name for field in relation.value]


@given(items=st.lists(ITEMS, min_size=1, max_size=6), key_at=st.integers(0, 6), key_name=st.sampled_from(["ID", "K"]))
def test_columns_keep_their_order_and_names_and_the_key_is_found_among_them(
    items: list[tuple[str, str | None]], key_at: int, key_name: str
) -> None:
    generated = iter(range(len(items)))
    names = [name or f"KSQL_COL_{next(generated)}" for _, name in items]
    texts = [text if name in (None, text) else f"{text} AS {name}" for text, name in items]
    texts.insert(key_at, f"ID AS {key_name}")
    if len(set(names)) == len(names):
        assert columns(", ".join(texts)) == ([key_name], names)
    else:
        assert isinstance(error_of(f"CREATE STREAM x AS SELECT {', '.join(texts)} FROM s;"), BadName)


@pytest.mark.parametrize(
    ("select", "source", "key", "value"),
    [
        ("*", "s", ["ID"], ["A", "B", "C", "L"]),
        ("*, a + 1", "s", ["ID"], ["A", "B", "C", "L", "KSQL_COL_0"]),
        ("s.*", "s", ["ID"], ["A", "B", "C", "L"]),
        # a join's columns have the names of their sources, where a star or two sources ask for it
        ("s.*, t.*", "s JOIN t ON s.id = t.id", ["S_ID"], ["S_A", "S_B", "S_C", "S_L", "T_ID", "T_V", "T_W"]),
        ("t.*, s.a", "s JOIN t ON s.id = t.id", ["T_ID"], ["T_V", "T_W", "A"]),
        (
            "s.id, r.id, s.a, r.a, b, x",
            "s JOIN r WITHIN 1 HOUR ON s.id = r.id",
            ["S_ID"],
            ["R_ID", "S_A", "R_A", "B", "X"],
        ),
        # a new key comes first, the old one last
        ("*", "s PARTITION BY a", ["A"], ["B", "C", "L", "ID"]),
        ("*", "s PARTITION BY UCASE(b)", ["KSQL_COL_0"], ["A", "B", "C", "L", "ID"]),
        # fields of a struct
        ("id, STRUCT(x := 1, y := 'b')->*", "s", ["ID"], ["X", "Y"]),
        ("id, STRUCT(y := 1)->y, STRUCT(y := 2)->y", "s", ["ID"], ["Y", "Y_1"]),
        ("id, STRUCT(a := 1)->a", "s", ["ID"], ["A_1"]),  # not the name of a column of the source
    ],
)
def test_stars_fields_and_joins_name_their_columns(select: str, source: str, key: list[str], value: list[str]) -> None:
    assert columns(select, source) == (key, value)


def test_a_generated_name_is_none_of_the_source() -> None:
    first = "CREATE STREAM y AS SELECT id, a + 1 FROM s;"
    relation = planned(first + "CREATE STREAM x AS SELECT id, ksql_col_0, ksql_col_0 + 1 FROM y;").sink.relation
    assert [field.name for field in relation.value] == ["KSQL_COL_0", "KSQL_COL_1"]


@pytest.mark.parametrize(
    ("rest", "error", "fix"),
    [
        ("a FROM s", BadKey, "add ID to SELECT"),
        ("a FROM s PARTITION BY b", BadKey, "add S.B to SELECT"),
        ("id FROM s", BadQuery, "select a column"),
        ("id, id AS again, a FROM s", BadKey, "write AS_VALUE(S.ID) for a copy"),
        ("id, a, b AS a FROM s", BadName, "... AS A_2"),
        ("id, a AS ksql_col_0, a + 1 FROM s", BadName, "AS KSQL_COL_0_2"),
        ("id, ROWTIME FROM s", BadName, "write ROWTIME AS something"),
        ("id, a AS ROWTIME FROM s", BadName, "choose another name"),
        ("id, NULL AS n FROM s", TypeMismatch, "CAST(NULL AS VARCHAR) AS N"),
        ("id, a->* FROM s", BadType, None),
    ],
)
def test_a_projection_that_cannot_be_is_refused_with_its_place_and_a_fix(
    rest: str, error: type[StatementError], fix: str | None
) -> None:
    refused = error_of(f"CREATE STREAM x AS SELECT {rest};")
    assert isinstance(refused, error), refused
    assert (fix or "") in (refused.fix or "")


def test_a_copy_of_the_key_is_a_value() -> None:
    assert columns("id, AS_VALUE(id) AS copy") == (["ID"], ["COPY"])
