"""A new project: its statements and queries are valid, and it overwrites nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import demo, project_template
from headrace.errors import BadOption
from headrace.lang.ksql.scripts.checker import check_script


def test_an_existing_project_is_not_overwritten(tmp_path: Path) -> None:
    made = project_template.create_project(tmp_path / "clicks")
    assert {path.name for path in made} == set(project_template.FILES)
    compile((tmp_path / "clicks" / "feed.py").read_text(), "feed.py", "exec")
    with pytest.raises(BadOption):
        project_template.create_project(tmp_path / "clicks")


@pytest.mark.parametrize("question", [*project_template.EXAMPLE_QUERIES, demo.PUSH_QUERY])
def test_its_statements_are_valid_ksql(question: str) -> None:
    assert not check_script(project_template.STATEMENTS + question, "clicks.ksql").errors


def test_the_readme_shows_commands_that_work(tmp_path: Path) -> None:
    project_template.create_project(tmp_path / "clicks", program="../bin/headrace", python="../bin/python")
    readme = (tmp_path / "clicks" / "README.md").read_text()
    assert "../bin/headrace up" in readme
    assert "../bin/python feed.py" in readme
    assert "HEADRACE" not in readme
    assert "PYTHON" not in readme
