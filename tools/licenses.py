"""The licences of everything that the product consists of, and whether they are allowed: `make licenses`.

The Python packages with all extras and the jars are those of the bill of materials. A licence is what a package or jar
says of itself; where it says nothing, or offers a choice in prose, `licenses.toml` has what a person has found.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import Distribution
from pathlib import Path

RULES_FILE = Path(__file__).with_name("licenses.toml")
_POM = re.compile(r"META-INF/maven/.*/pom\.xml")
_LICENSE_FILE = re.compile(r"(.*/)?LICENSE(\.txt|\.md)?", re.IGNORECASE)
_LICENSES = re.compile(r"<licenses>(.*?)</licenses>", re.DOTALL)
_EXPRESSION = re.compile(r"\(?[\w.+-]+\)?(?: (?:AND|OR) \(?[\w.+-]+\)?)+", re.ASCII)
_TITLE = 60  # characters at the beginning of a licence file
_IDENTIFIER = re.compile(r"[A-Za-z0-9.+-]+")


@dataclass(frozen=True)
class Rules:
    """`allowed` are SPDX identifiers; `names` are (pattern, identifier); `reviewed` has expressions by name."""

    allowed: frozenset[str]
    optional: frozenset[str]
    """Allowed for packages that only an extra installs."""
    names: Sequence[tuple[re.Pattern[str], str]]
    reviewed: Mapping[str, str]

    @classmethod
    def read(cls, path: Path = RULES_FILE) -> Rules:
        found = tomllib.loads(path.read_text())
        names = [(re.compile(pattern, re.IGNORECASE), name) for pattern, name in found["names"].items()]
        return cls(frozenset(found["allowed"]), frozenset(found["optional"]), names, found["reviewed"])

    def of(self, name: str, declared: Iterable[str]) -> str:
        """The licence of a component as an SPDX expression; empty if it is unknown."""
        for pattern, reviewed in self.reviewed.items():
            if fnmatch(name, pattern):
                return reviewed
        return " AND ".join(sorted({self._identifier(one) for one in declared}))

    def _identifier(self, declared: str) -> str:
        """What a component declares: an SPDX expression as it is, other names by their patterns."""
        if declared in self.allowed or _EXPRESSION.fullmatch(declared):
            return declared if " " not in declared else f"({declared})"
        found = (identifier for pattern, identifier in self.names if pattern.search(declared))
        return next(found, re.sub(r"[^A-Za-z0-9.+-]+", "-", declared).strip("-"))

    def allow(self, expression: str, *, is_optional: bool = False) -> bool:
        """Whether all licences of an expression are allowed; of alternatives (OR), one."""
        allowed = self.allowed | self.optional if is_optional else self.allowed
        words = {"AND": "and", "OR": "or"}
        text = _IDENTIFIER.sub(lambda found: words.get(found[0], str(found[0] in allowed)), expression)
        try:
            return _is_true(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError):
            return False


def _is_true(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bool() as value):
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_is_true, values))
        case ast.BoolOp(values=values):
            return any(map(_is_true, values))
    raise ValueError("not an expression of licences")


# -- what components declare ------------------------------------------------------------------------------------------


def declared_by_package(package: Distribution) -> list[str]:
    """The licence expression, else the licence in one line, else the classifiers."""
    metadata = package.metadata
    for field in ("License-Expression", "License"):
        text = (metadata.get_all(field) or [""])[0].strip()
        if text and "\n" not in text:
            return [text]
    classifiers = metadata.get_all("Classifier") or []
    return [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::")]


def declared_by_jar(path: Path) -> list[str]:
    """What the jar's poms and its manifest name, else the beginning of its licence file."""
    with zipfile.ZipFile(path) as jar:
        names = jar.namelist()
        found = list(_declared(jar, names))
        if not found:
            files = (name for name in names if _LICENSE_FILE.fullmatch(name))
            found = [" ".join(_text(jar, name).split())[:_TITLE] for name in files][:1]
    return found


def _declared(jar: zipfile.ZipFile, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if _POM.fullmatch(name) and (listed := _LICENSES.search(_text(jar, name))):
            yield from re.findall(r"<name>(.*?)</name>", listed[1])
    if "META-INF/MANIFEST.MF" in names:
        manifest = _text(jar, "META-INF/MANIFEST.MF").replace("\r", "").replace("\n ", "")
        if bundle := re.search(r"^Bundle-License: (.*)$", manifest, re.MULTILINE):
            yield from (one.strip() for one in bundle[1].split(","))


def _text(jar: zipfile.ZipFile, name: str) -> str:
    return jar.read(name).decode(errors="replace")


# -- check ------------------------------------------------------------------------------------------------------------


def problems(components: Iterable[Mapping[str, str]], rules: Rules) -> list[str]:
    """Components, each with `name`, `license` and maybe `optional`, whose licence is unknown or not allowed."""
    found: list[str] = []
    for one in components:
        if not one["license"]:
            found.append(f"{one['name']}: no licence is known; find it and add it to tools/licenses.toml")
        elif not rules.allow(one["license"], is_optional=bool(one.get("optional"))):
            found.append(f"{one['name']}: {one['license']} is not allowed")
    return found


def main() -> int:
    from tools.sbom import licensed_components

    components = licensed_components()
    for one in components:
        print(f"{one['name']:50} {one['license']}")
    if wrong := problems(components, Rules.read()):
        print("\nnot allowed:", *wrong, sep="\n  ", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
