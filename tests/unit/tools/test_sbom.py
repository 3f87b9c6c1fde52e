from __future__ import annotations

import re
from typing import Any

import pytest
from tools.locks import RUNTIME, read_lock
from tools.sbom import _name_and_version, bom

from headrace.log.kafka.jars import SETS


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return bom()


def test_every_runtime_package_is_listed_with_its_pinned_version(document: dict[str, Any]) -> None:
    pinned = {name: pin.version for name, pin in read_lock(RUNTIME).items()}
    listed = {one["name"]: one["version"] for one in document["components"] if one["purl"].startswith("pkg:pypi/")}
    assert {"pyspark", "pyarrow", "orjson", "lark", "typer", "rich", "starlette", "confluent-kafka"} <= listed.keys()
    assert {name: version for name, version in listed.items() if pinned.get(name) != version} == {}
    assert not {"pytest", "ruff", "pip-audit"} & listed.keys()


def test_jars_are_listed(document: dict[str, Any]) -> None:
    purls = {one["purl"] for one in document["components"]}
    for coordinates in (one for jars in SETS for one in jars.coordinates):
        assert "pkg:maven/{}/{}@{}".format(*coordinates.split(":")) in purls
    assert any(re.fullmatch(r"pkg:maven/org.apache.hadoop/.*|pkg:generic/hadoop-client-.*", purl) for purl in purls)


def test_jars_that_are_fetched_are_listed_with_their_pinned_hashes(document: dict[str, Any]) -> None:
    hashes = {digest["content"] for one in document["components"] for digest in one.get("hashes", ())}
    assert {digest for jars in SETS for digest in jars.checksums.values()} <= hashes


def test_the_bill_of_materials_is_reproducible_without_duplicates(document: dict[str, Any]) -> None:
    assert bom() == document
    refs = [one["bom-ref"] for one in document["components"]]
    assert len(refs) == len(set(refs))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("log4j-1.2-api-2.25.4.jar", "log4j-1.2-api", "2.25.4"),
        ("hive-shims-0.23-2.3.10.jar", "hive-shims-0.23", "2.3.10"),
        ("hive-exec-2.3.10-core.jar", "hive-exec", "2.3.10-core"),
        ("spark-sql_2.13-4.2.0.jar", "spark-sql_2.13", "4.2.0"),
        ("guava-14.0.1.jar", "guava", "14.0.1"),
        ("guava-33.6.0-jre.jar", "guava", "33.6.0-jre"),
        ("jersey-container-servlet-core-3.1.11.jar", "jersey-container-servlet-core", "3.1.11"),
        ("zstd-jni-1.5.7-7.jar", "zstd-jni", "1.5.7-7"),
        ("orc-core-2.3.0-shaded-protobuf.jar", "orc-core", "2.3.0-shaded-protobuf"),
        (
            "netty-tcnative-boringssl-static-2.0.76.Final-linux-x86_64.jar",
            "netty-tcnative-boringssl-static",
            "2.0.76.Final-linux-x86_64",
        ),
        ("commons-math3-3.6.1.jar", "commons-math3", "3.6.1"),
        ("icu4j-78.jar", "icu4j", "78"),
        ("aop-20-beta.jar", "aop", "20-beta"),
        ("bare.jar", "bare", ""),
    ],
)
def test_the_name_and_version_of_a_jar_come_from_its_file_name(file: str, name: str, version: str) -> None:
    assert _name_and_version(file) == (name, version)


def test_versions_of_jars_contain_no_names(document: dict[str, Any]) -> None:
    (found,) = [one for one in document["components"] if one["name"] == "log4j-1.2-api"]
    assert re.fullmatch(r"[\d.]+", found["version"])
