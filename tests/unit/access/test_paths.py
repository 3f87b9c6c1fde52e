"""Names of topics, views and checkpoints never lead out of the data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.control.queries.supervisor import checkpoint_folder
from headrace.errors import BadTopicName, HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.plan.relations import Format, Kind, Relation
from headrace.plan.sources import SourceInfo
from headrace.views.materializer import view_path

NAMES = ["../x", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", ".", "..", "a\0b", "a\nb", "%2e%2e%2f", "~/x"]


@pytest.mark.parametrize("name", NAMES)
def test_topic_names_stay_in_the_data_folder(log: EmbeddedLog, name: str) -> None:
    with pytest.raises(BadTopicName):
        log.create_topic(name)
    with pytest.raises(HeadraceError):
        log.topic(name)


@pytest.mark.parametrize("name", NAMES)
def test_view_and_checkpoint_names_stay_in_the_data_folder(tmp_path: Path, name: str) -> None:
    relation = Relation(Kind.TABLE, (), ())
    source = SourceInfo(name, "t", relation, Format("JSON"), Format("JSON"))
    view = view_path(tmp_path, source)
    assert view.parent == tmp_path / "views"
    assert view.resolve().parent == (tmp_path / "views").resolve()
    folder = tmp_path / "checkpoints" / "server"
    others = [checkpoint_folder(folder, other) for other in (*NAMES, "x" * 500, "x" * 501) if other != name]
    assert checkpoint_folder(folder, name) not in others
    assert all(len(other.name) < 220 for other in others)
    place = checkpoint_folder(folder, name)
    assert place.resolve().parent == folder.resolve(), place
