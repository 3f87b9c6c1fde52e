"""A data folder of another version, at another path: its queries resume from their state."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from bench.tables.serve_server import server

from tests.fixtures import make_running as made
from tests.wait import wait_until

FOLDERS = sorted(Path(made.__file__).parent.glob("running-*.tar.gz"))
MORE = [{**row, "QUANTITY": 100} for row in made.ROWS[-6:]]


@pytest.mark.parametrize("packed", FOLDERS, ids=lambda path: path.name)
def test_queries_of_an_older_version_resume(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    with server(tmp_path / "data", **made.SETTINGS) as there:
        assert made.held(there) == made.results(made.ROWS)
        made.insert(there, MORE)
        wait_until(
            lambda: made.held(there) == made.results([*made.ROWS, *MORE]),
            lambda: (made.held(there), there.get("/api/v1/queries")),
        )
        queries = there.get("/api/v1/queries")
        assert {one["name"]: (one["execution_mode"], one["records"]) for one in queries} == {
            name: (way, len(MORE)) for name, way in made.WAYS.items()
        }
