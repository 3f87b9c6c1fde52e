"""What a build consists of, as CycloneDX JSON: `make sbom`.

The Python packages that the product needs with all its extras, as they are installed; the jars inside of Spark, by
their own description; and those that are fetched for Kafka, as they are pinned. The same parts give the same file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pyspark
from packaging.requirements import Requirement

from headrace import __version__
from headrace.log.kafka.jars import SETS

# A name may have numbers of its own (log4j-1.2-api), a version a number or words behind it (1.5.7-7, 33.6.0-jre).
_JARS = re.compile(r"(.+)-(\d+\.[^-]*(?:-\d+)?(?:-[A-Za-z]\w*)*)\.jar"), re.compile(r"(.+?)-(\d.*)\.jar")
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of names that are URLs, as the standard has it
Component = dict[str, Any]


def bom() -> dict[str, Any]:
    found = {one["bom-ref"]: one for one in [*_packages(), *_bundled(), *_fetched()]}
    parts = [found[ref] for ref in sorted(found)]
    number = uuid.uuid5(_SPACE, json.dumps(parts))
    product = _component("application", "headrace", __version__, f"pkg:pypi/headrace@{__version__}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"component": product},
        "components": parts,
        "dependencies": [{"ref": product["bom-ref"], "dependsOn": sorted(found)}],
    }


def _component(kind: str, name: str, version: str, purl: str, **more: Any) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def _packages() -> Iterator[Component]:
    """All that headrace requires, and what that does in turn."""
    own = distribution("headrace")
    extras = own.metadata.get_all("Provides-Extra") or []
    todo, seen = [(own, extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while todo:
        one, extra = todo.pop()
        for text in one.requires or []:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            for further in ("", *wanted.extras):
                if (wanted.name.lower(), further) not in seen and (found := _installed(wanted.name)):
                    seen.add((wanted.name.lower(), further))
                    todo.append((found, further))
                    yield _package(found)


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:  # an extra of somebody's that nobody asked for
        return None


def _package(found: Distribution) -> Component:
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
    licence = found.metadata.get("License-Expression") or found.metadata.get("License", "")
    told = {"licenses": [{"license": {"name": licence}}]} if licence and "\n" not in licence else {}
    return _component("library", name, found.version, f"pkg:pypi/{name}@{found.version}", **told)


def _bundled() -> Iterator[Component]:
    """The jars that Spark brings along."""
    for path in sorted(Path(pyspark.__file__).with_name("jars").glob("*.jar")):
        group, name, version = _described(path)
        digest = {"hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}
        purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
        yield _component("library", name, version, purl, **digest)


def _described(path: Path) -> tuple[str, str, str]:
    """Group, name and version: what the jar says of itself, else what its file's name says."""
    name, version = _named(path.name)
    with zipfile.ZipFile(path) as jar:
        for member in jar.namelist():
            if member.endswith(f"/{name}/pom.properties"):
                lines = jar.read(member).decode().splitlines()
                facts = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
                return facts.get("groupId", ""), name, facts.get("version", version).strip()
    return "", name, version


def _named(file: str) -> tuple[str, str]:
    """The last number with a point begins the version; where there is none, the first number does."""
    named = next(filter(None, (pattern.fullmatch(file) for pattern in _JARS)), None)
    return (named[1], named[2]) if named else (Path(file).stem, "")


def _fetched() -> Iterator[Component]:
    """The jars that are fetched for Kafka, with their pinned hashes."""
    for jars in SETS:
        groups = {name: group for group, name, _ in (one.split(":") for one in jars.coordinates)}
        for file, digest in jars.checksums.items():
            name, version = _named(file)
            group = groups.get(name)
            purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
            yield _component("library", name, version, purl, hashes=[{"alg": "SHA-256", "content": digest}])


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else f"dist/headrace-{__version__}.cdx.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    made = bom()
    path.write_text(json.dumps(made, indent=2) + "\n")
    print(f"{path}: {len(made['components'])} components")


if __name__ == "__main__":
    main()
