"""Examples in the documentation run: `console` blocks line by line, `python` blocks as scripts.

The blocks of a page run one after the other in one empty folder, as a reader would type them. A block with a second
word, such as `json cases.json`, is a file of that name. Blocks marked `sh` are commands that do not end by themselves
(a demo, a broker); they are not run here. `ksql` blocks are run by `test_ksql`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

BLOCK = re.compile(r"^```(console|python|\w+ \S+)\n(.*?)^```$", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def commands(text: str) -> list[str]:
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for kind, text in blocks(page):
        if " " in kind:
            (tmp_path / kind.split()[1]).write_text(text)
            continue
        for command in commands(text) if kind == "console" else [[sys.executable, "-c", text]]:
            done = subprocess.run(
                command,
                shell=isinstance(command, str),
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
