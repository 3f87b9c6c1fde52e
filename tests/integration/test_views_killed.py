"""A process that materializes a view is killed within a transaction; the next one resumes exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headrace.contracts import TopicSpec
from headrace.faultpoints import VARIABLE
from headrace.log.embedded import EmbeddedLog
from headrace.plan.steps import Event
from headrace.settings import Settings
from headrace.views.materializer import ViewMaterializer
from headrace.views.stores import open_store
from tests.unit.views.pull_queries import all_rows, append, table

DECLARED = "CREATE TABLE T (ID BIGINT PRIMARY KEY, N BIGINT) WITH (kafka_topic='t', format='JSON', partitions=2);"
_, SOURCE = table(DECLARED)
KEEP = """
import sys
from pathlib import Path
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from headrace.views.materializer import ViewMaterializer
from headrace.views.stores import open_store
from tests.integration.test_views_killed import SOURCE

folder, kind, url = Path(sys.argv[1]), *sys.argv[2:]
with EmbeddedLog(folder) as log:
    settings = Settings.of(storage_data=folder, views_backend=kind, views_postgres_url=url)
    view = open_store(settings).open(SOURCE, log.topic("t"))
    keeper = ViewMaterializer(log, SOURCE, view, at_once=500)
    while keeper.step():
        pass
"""


def changes() -> list[Event]:
    """Every key again and again, with deletions; few keys are left as they were first."""
    return [(i, (i * 7 % 300,), None if i % 11 == 0 else (i,)) for i in range(3_000)]


@pytest.mark.faults
@pytest.mark.parametrize("point", ["view-half", "view-whole"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kill_within_a_transaction_leaves_no_partial_change(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, point: str
) -> None:
    url = request.getfixturevalue("postgres").url if kind == "postgres" else ""
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", TopicSpec(partitions=2))
        append(log, SOURCE, changes())
        for count in (1, 3):
            mark = tmp_path / f"mark-{count}"
            environment = {**os.environ, VARIABLE: f"{point}:{count}:{mark}"}
            done = subprocess.run(
                [sys.executable, "-c", KEEP, str(tmp_path), kind, url], env=environment, timeout=120, check=False
            )
            assert done.returncode == -9
            assert mark.read_text() == point
        with closing(
            open_store(Settings.of(storage_data=tmp_path, views_backend=kind, views_postgres_url=url))
        ) as store:
            view = store.open(SOURCE, log.topic("t"))
            assert view.state().version == 2  # the first died before it had committed anything, the second after two
            keeper = ViewMaterializer(log, SOURCE, view, at_once=500)
            while keeper.step():
                pass
            model = {key: row for _, key, row in changes()}
            expected = {key: row for key, row in model.items() if row is not None}
            assert {key: row for _, key, row in all_rows(view).values()} == expected
