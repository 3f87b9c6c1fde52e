"""Attacks with the folder that headrace is started in: files there are named like Python's own modules."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attack.server import HEADRACE, AttackedServer
from tests.wait import wait_until

_OWN = tuple(name for name in sorted(sys.stdlib_module_names) if importlib.util.find_spec(name))
_PACKAGES = ("pandas", "numpy", "pyarrow", "pyspark", "headrace")
_TABLES = """
CREATE STREAM names (id INT KEY, name STRING) WITH (KAFKA_TOPIC='names', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM greetings AS SELECT id, {function}(name) AS text FROM names;
CREATE TABLE counts AS SELECT name, COUNT(*) AS total FROM names GROUP BY name;
INSERT INTO names (id, name) VALUES (1, 'Ann');
"""
_SERVED = """
import headrace as hr

app = hr.App("greeter")


@app.function
def greet(name: str) -> str:
    return "Hello " + name
"""
_SCRIPT = """
import headrace as hr
from salutation import SALUTATION

app = hr.App("greeter")


@app.function
def greet(name: str) -> str:
    import random  # Python's own

    return random.choice([SALUTATION]) + name


app.ksql('''
{tables}
''')
"""


def _hostile(folder: Path, marker: Path, names: Sequence[str] = (*_OWN, *_PACKAGES)) -> Path:
    """A folder whose modules leave their names in a file when they are imported."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r} + ' ')\n")
    return folder


def _imported(marker: Path) -> str:
    return marker.read_text() if marker.exists() else ""


@pytest.mark.attack("modules like `queue.py` and `enum.py` in the working folder of a server", "nothing imports them")
def test_a_server_imports_nothing_from_its_working_folder(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    with AttackedServer(tmp_path / "data", cwd=_hostile(tmp_path / "downloads", marker)) as server:
        secret = {"authorization": f"Bearer {(server.folder / 'local.secret').read_text().strip()}"}
        deployed = server.post("/api/v1/apps", {"source": _SERVED, "path": "greeter.py"}, secret)
        assert deployed.status == 200, deployed.body
        answer = server.execute(_TABLES.format(function="GREET"), secret)
        assert answer.status == 200, answer.body
        for query, row in (
            ("SELECT * FROM counts WHERE name = 'Ann';", ["Ann", 1]),
            ("SELECT text FROM greetings;", ["Hello Ann"]),
        ):
            wait_until(
                lambda query=query, row=row: _has(server, query, row), lambda: (server.output, _imported(marker))
            )
    assert _imported(marker) == ""


@pytest.mark.attack(
    "modules like `queue.py` beside an app and in the working folder", "only the app's own are imported"
)
def test_an_app_imports_its_neighbours_but_none_named_like_pythons_own(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    app = _hostile(tmp_path / "app", marker, _OWN)  # as in a script, packages come after the app's own modules
    (app / "salutation.py").write_text("SALUTATION = 'Hello '\n")
    (app / "app.py").write_text(_SCRIPT.format(tables=_TABLES.format(function="GREET")))
    data = ("--data", str(tmp_path / "data"))
    ran = subprocess.run(
        [*HEADRACE, *data, "run", str(app / "app.py"), "--until-idle", "--plain"],
        cwd=_hostile(tmp_path / "downloads", marker),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ran.returncode, _imported(marker)) == (0, ""), ran.stdout + ran.stderr
    rows = subprocess.run(
        [*HEADRACE, *data, "consume", "GREETINGS"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Hello Ann" in rows.stdout


def _has(server: AttackedServer, query: str, row: Sequence[object]) -> bool:
    answer = server.post("/query", {"ksql": query})
    return answer.status == 200 and json.dumps(list(row)).replace(" ", "") in answer.body.decode().replace(" ", "")
