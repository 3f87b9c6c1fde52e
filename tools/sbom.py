"""Writes the software bill of materials as CycloneDX JSON: `make sbom`.

It lists the installed Python packages that the product requires, with all its extras; the jars inside PySpark, by
their Maven metadata; and the pinned jars that are downloaded for Kafka. The same parts give the same file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pyspark
from packaging.requirements import Requirement

from headrace import __version__
from headrace.log.kafka.jars import SETS
from tools.licenses import Rules, declared_by_jar, declared_by_package

# A name may have numbers of its own (log4j-1.2-api), a version a number or words behind it (1.5.7-7, 33.6.0-jre).
_JARS = re.compile(r"(.+)-(\d+\.[^-]*(?:-\d+)?(?:-[A-Za-z]\w*)*)\.jar"), re.compile(r"(.+?)-(\d.*)\.jar")
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # for names that are URLs, as RFC 4122 defines it
Component = dict[str, Any]
RULES = Rules.read()


def bom() -> dict[str, Any]:
    components = {one["bom-ref"]: one for one in [*_packages(), *_bundled(), *_fetched()]}
    parts = [components[ref] for ref in sorted(components)]
    number = uuid.uuid5(_SPACE, json.dumps(parts))
    product = _component("application", "headrace", __version__, f"pkg:pypi/headrace@{__version__}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"component": product},
        "components": parts,
        "dependencies": [{"ref": product["bom-ref"], "dependsOn": sorted(components)}],
    }


def _component(kind: str, name: str, version: str, purl: str, **more: Any) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def _packages(*, with_extras: bool = True) -> Iterator[Component]:
    """The packages that headrace requires, directly or indirectly."""
    own = distribution("headrace")
    extras = (own.metadata.get_all("Provides-Extra") or []) if with_extras else []
    todo, seen = [(own, extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while todo:
        one, extra = todo.pop()
        for text in one.requires or []:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            for further in ("", *requirement.extras):
                if (requirement.name.lower(), further) not in seen and (package := _installed(requirement.name)):
                    seen.add((requirement.name.lower(), further))
                    todo.append((package, further))
                    yield _package(package)


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:  # it belongs to an extra that is not installed
        return None


def _package(package: Distribution) -> Component:
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    licence = _licence(name, declared_by_package(package))
    return _component("library", name, package.version, f"pkg:pypi/{name}@{package.version}", **licence)


def _licence(name: str, declared: Iterable[str]) -> Component:
    expression = RULES.of(name, declared)
    return {"licenses": [{"expression": expression}]} if expression else {}


def licensed_components() -> list[Mapping[str, str]]:
    """The name and the licence of each component; it is optional if only an extra needs it."""
    required = {one["name"] for one in _packages(with_extras=False)}
    found: dict[str, Mapping[str, str]] = {}
    for one in (*_packages(), *_bundled(), *_fetched()):
        licence = "".join(listed["expression"] for listed in one.get("licenses", ()))
        is_optional = one["purl"].startswith("pkg:pypi/") and one["name"] not in required
        name = f"{one['name']} {one['version']}"
        found[name] = {"name": name, "license": licence, "optional": "yes" if is_optional else ""}
    return [found[name] for name in sorted(found)]


def _bundled() -> Iterator[Component]:
    """The jars inside PySpark."""
    for path in sorted(Path(pyspark.__file__).with_name("jars").glob("*.jar")):
        group, name, version = _coordinates(path)
        digest = {"hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}
        purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
        yield _component("library", name, version, purl, **digest, **_licence(name, declared_by_jar(path)))


def _coordinates(path: Path) -> tuple[str, str, str]:
    """Group, name and version: from the jar's Maven metadata, else from the name of its file."""
    name, version = _name_and_version(path.name)
    with zipfile.ZipFile(path) as jar:
        for member in jar.namelist():
            if member.endswith(f"/{name}/pom.properties"):
                lines = jar.read(member).decode().splitlines()
                facts = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                return facts.get("groupId", ""), name, facts.get("version", version).strip()
    return "", name, version


def _name_and_version(file: str) -> tuple[str, str]:
    """The version begins at the last number with a point, or at the first number if none has a point."""
    match = next(filter(None, (pattern.fullmatch(file) for pattern in _JARS)), None)
    return (match[1], match[2]) if match else (Path(file).stem, "")


def _fetched() -> Iterator[Component]:
    """The jars that are downloaded for Kafka, with their pinned hashes."""
    for jars in SETS:
        groups = {name: group for group, name, _ in (one.split(":") for one in jars.coordinates)}
        for file, digest in jars.checksums.items():
            name, version = _name_and_version(file)
            group = groups.get(name)
            purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
            hashes = [{"alg": "SHA-256", "content": digest}]
            yield _component("library", name, version, purl, hashes=hashes, **_licence(name, ()))


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else f"dist/headrace-{__version__}.cdx.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    document = bom()
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{path}: {len(document['components'])} components")


if __name__ == "__main__":
    main()
