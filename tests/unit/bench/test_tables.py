"""Tables of benchmarks and their settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import ROOT
from bench.harness.settings import load
from bench.tables import names, table

from headrace.errors import BadOption, BadSetting


def test_names_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no table"):
        table("nothing")
    with pytest.raises(BadOption, match="no case"):
        table("selftest").case("nothing")
    (tmp_path / "odd.toml").write_text("[cases.nothing]\n")
    with pytest.raises(BadSetting, match="no case"):
        load(tmp_path / "odd.toml", table("selftest"))


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
def test_every_table_has_settings_for_every_case(name: str, quick: bool) -> None:
    chosen = table(name)
    loaded = load(ROOT / "bench" / "settings" / f"{name}.toml", chosen, quick=quick)
    assert set(loaded.cases) == {case.name for case in chosen.cases}
    assert {target.peer for case in loaded.cases.values() for target in case.targets} <= {
        None,
        *(side for case in chosen.cases for side in case.sides),
    }


def test_one_case_is_read_from_the_settings_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "older.toml"
    file.write_text("[cases.hash]\nrecords = 7\n[cases.renamed_since]\nrecords = 8\n")
    assert load(file, table("selftest"), only="hash").cases["hash"].workload == {"records": 7}
    with pytest.raises(BadSetting, match="no case"):
        load(file, table("selftest"), only="paced")
