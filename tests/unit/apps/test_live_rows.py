"""The latest rows of a stream or table, as a notebook shows them."""

from __future__ import annotations

import pytest

from headrace.apps.live_rows import LiveRows
from headrace.lang.python.dict_rows import Change


def live(*looks: list[Change], is_table: bool = True, limit: int = 2) -> LiveRows:
    left = list(looks)
    return LiveRows("T", lambda: left.pop(0) if left else [], is_table=is_table, limit=limit)


def change(key: str, n: int | None) -> Change:
    return {"k": key}, None if n is None else {"k": key, "n": n}


def test_a_table_shows_the_latest_row_of_the_most_recently_changed_keys() -> None:
    table = live([change("a", 1), change("b", 1), change("a", 2)], [change("c", 1)], [change("a", None)])
    assert table.rows == [{"k": "b", "n": 1}, {"k": "a", "n": 2}]
    assert table.rows == [{"k": "a", "n": 2}, {"k": "c", "n": 1}]
    assert table.rows == [{"k": "c", "n": 1}]


def test_a_stream_shows_its_latest_rows() -> None:
    stream = live([change("a", 1), change("a", 1), change("a", 1)], is_table=False)
    assert stream.rows == [{"k": "a", "n": 1}] * 2


def test_rows_are_rendered_as_an_html_table() -> None:
    shown = live([change("<b>", 1)])._repr_html_()
    assert "<th>k</th><th>n</th>" in shown
    assert "<td>&lt;b&gt;</td><td>1</td>" in shown
    assert "<td>" not in live()._repr_html_()


def test_watch_shows_the_current_rows(capsys: pytest.CaptureFixture[str]) -> None:
    live([change("a", 1)], [change("a", 2)]).watch(seconds=0, every=0)
    assert capsys.readouterr().out.count("T: 1 rows") == 1


def test_rows_that_are_still_missing_are_announced() -> None:
    waiting = LiveRows("T", list, is_table=True, notice=lambda: "query Q is starting, 3 records behind")
    assert repr(waiting) == "T: 0 rows; query Q is starting, 3 records behind"
    assert "query Q is starting" in waiting._repr_html_()
