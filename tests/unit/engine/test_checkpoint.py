"""Checkpoints of queries whose Python code has changed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.engine.checkpoint import Checkpoint
from headrace.errors import PlanChanged
from headrace.lang.python.app_code import load
from headrace.plan.nodes import Query

APP = """
import headrace as hr

app = hr.App()
clicks = app.stream("clicks", "user STRING KEY, page STRING")

@app.function
def short(page: str) -> str:
    return page[:3]

class Visits(hr.Operator):
    output = "n BIGINT"

    def on_event(self, event, ctx):
        ctx.state = (ctx.state or 0) + 1
        ctx.emit(n=ctx.state)

clicks.operate(Visits).to_stream("visits")
clicks.group_by(short(hr.col.page).alias("page")).count().to_table("per_page")
clicks.select("user", page=short(hr.col.page)).to_stream("pages")
"""


def queries(folder: Path, text: str = APP) -> dict[str, Query]:
    file = folder / "app.py"
    file.write_text(text)
    return load(file)[1].catalog.queries


def opened(folder: Path, query: Query) -> dict[str, str]:
    return Checkpoint(folder / query.id).open(query, "record", 1, ("clicks",)).code


@pytest.mark.parametrize(
    ("name", "code", "before", "after"),
    [
        ("CSAS_VISITS_0", "operator VISITS", "+ 1", "+ 2"),
        ("CTAS_PER_PAGE_1", "function SHORT", "page[:3]", "page[:4]"),
    ],
)
def test_changed_code_is_refused_for_existing_state(
    name: str, code: str, before: str, after: str, tmp_path: Path
) -> None:
    first = opened(tmp_path, queries(tmp_path)[name])
    assert list(first) == [code]
    assert opened(tmp_path, queries(tmp_path)[name]) == first  # what has not changed goes on
    changed = queries(tmp_path, APP.replace(before, after))[name]
    with pytest.raises(PlanChanged, match=f"other code of {code} created its state") as raised:
        opened(tmp_path, changed)
    assert f'version = "{first[code]}"' in (raised.value.fix or "")


def test_a_declared_code_version_keeps_the_state(tmp_path: Path) -> None:
    first = opened(tmp_path, queries(tmp_path)["CSAS_VISITS_0"])["operator VISITS"]
    told = APP.replace("+ 1", "+ 2").replace('"n BIGINT"', f'"n BIGINT"\n    version = "{first}"')
    assert opened(tmp_path, queries(tmp_path, told)["CSAS_VISITS_0"]) == {"operator VISITS": first}
    told = APP.replace("@app.function", '@app.function(version="2")')
    assert opened(tmp_path, queries(tmp_path, told)["CSAS_PAGES_2"]) == {"function SHORT": "2"}


def test_a_stateless_query_resumes_with_changed_code_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened(tmp_path, queries(tmp_path)["CSAS_PAGES_2"])
    with caplog.at_level(logging.WARNING):
        second = opened(tmp_path, queries(tmp_path, APP.replace("page[:3]", "page[:4]"))["CSAS_PAGES_2"])
    assert caplog.messages == ["query CSAS_PAGES_2 resumes with changed code of function SHORT"]
    assert opened(tmp_path, queries(tmp_path, APP.replace("page[:3]", "page[:4]"))["CSAS_PAGES_2"]) == second != first


# -- a folder that was moved ----------------------------------------------------------------------------------------

NOTE = 'v2\n{"stores":[{"stateSchemaFilePaths":["file:%s/state/0/_stateSchema/default/0_a"]}],"more":"{\\"b\\":1}"}'


def test_a_moved_checkpoint_folder_is_opened(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new place")
    note = checkpoint.spark / "state" / "0" / "_metadata" / "v2" / "0"
    note.parent.mkdir(parents=True)
    note.write_text(NOTE % "/old/spark")
    (checksum := note.with_name(".0.crc")).write_bytes(b"of the old text")
    checkpoint.repair_paths()
    assert note.read_text() == NOTE % checkpoint.spark
    assert sorted(note.parent.iterdir()) == [note]
    checksum.write_bytes(b"of the new text")
    checkpoint.repair_paths()  # what is right is left alone
    assert checksum.exists()
