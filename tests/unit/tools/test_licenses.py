"""The check of licences: what it accepts, and that the build fails over what it does not."""

from __future__ import annotations

import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from tools.licenses import Rules, declared_by_jar, declared_by_package, problems
from tools.sbom import licensed_components

RULES = Rules.read()


def test_all_packages_and_jars_have_an_allowed_licence() -> None:
    components = licensed_components()
    assert len(components) > 300
    assert problems(components, RULES) == []


def _package(folder: Path, *lines: str) -> Distribution:
    info = folder / "made_up-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: made-up", "Version: 1.0", *lines]) + "\n")
    return Distribution.at(info)


@pytest.mark.parametrize(
    "lines",
    [
        ["License-Expression: GPL-3.0-or-later"],
        ["License-Expression: MIT AND GPL-2.0-only"],
        ["License: GNU General Public License v3"],
        ["Classifier: License :: OSI Approved :: GNU Affero General Public License v3"],
        ["License-Expression: LGPL-3.0-only"],
        ["License: for our customers only"],
        [],
    ],
)
def test_a_package_under_a_licence_that_is_not_allowed_fails_the_check(tmp_path: Path, lines: list[str]) -> None:
    licence = RULES.of("made-up", declared_by_package(_package(tmp_path, *lines)))
    (problem,) = problems([{"name": "made-up 1.0", "license": licence}], RULES)
    assert problem.startswith("made-up 1.0: ")


def test_lgpl_is_allowed_for_what_only_an_extra_needs(tmp_path: Path) -> None:
    licence = RULES.of("made-up", declared_by_package(_package(tmp_path, "License-Expression: LGPL-3.0-only")))
    assert problems([{"name": "made-up", "license": licence, "optional": "yes"}], RULES) == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT OR GPL-2.0-only", True),
        ("(MIT OR GPL-2.0-only) AND Apache-2.0", True),
        ("(MIT OR Apache-2.0) AND GPL-2.0-only", False),
        ("not an expression", False),
        ("__import__('os')", False),
    ],
)
def test_of_alternatives_one_must_be_allowed(expression: str, allowed: bool) -> None:
    assert RULES.allow(expression) is allowed


def test_a_jar_names_its_licence_in_its_pom_its_manifest_or_a_file(tmp_path: Path) -> None:
    pom, text = "<licenses><license><name>The GNU GPL, version 3</name></license></licenses>", "Apache License\n"
    jars = {
        "pom": ("META-INF/maven/a/b/pom.xml", pom),
        "manifest": ("META-INF/MANIFEST.MF", "Bundle-License: https://opensource.org/lic\r\n enses/MIT\r\n"),
        "file": ("META-INF/LICENSE.txt", text),
        "none": ("A.class", ""),
    }
    found: dict[str, str] = {}
    for name, (member, content) in jars.items():
        with zipfile.ZipFile(tmp_path / f"{name}.jar", "w") as jar:
            jar.writestr(member, content)
        found[name] = RULES.of(name, declared_by_jar(tmp_path / f"{name}.jar"))
    assert found == {"pom": "GPL-2.0-only", "manifest": "MIT", "file": "Apache-2.0", "none": ""}
