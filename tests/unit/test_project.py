"""A new project: its statements and questions are good, and it takes nobody's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import demo, project
from headrace.errors import BadOption
from headrace.lang.ksql.script import check_script


def test_a_project_is_made_once(tmp_path: Path) -> None:
    made = project.create(tmp_path / "clicks")
    assert {path.name for path in made} == set(project.FILES)
    compile((tmp_path / "clicks" / "feed.py").read_text(), "feed.py", "exec")
    with pytest.raises(BadOption):
        project.create(tmp_path / "clicks")


@pytest.mark.parametrize("question", [*project.QUESTIONS, demo.QUESTION])
def test_what_it_says_is_ksql(question: str) -> None:
    assert not check_script(project.STATEMENTS + question, "clicks.ksql").errors
