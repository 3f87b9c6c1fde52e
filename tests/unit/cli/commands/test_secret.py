"""Secrets are set in every supported way, commands succeed and fail, and no output, file or log contains them."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace import cli, logfile
from headrace.control.node import Node
from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka.client import Client as KafkaClient
from headrace.secrets import resolve_secrets
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings, load_settings
from tests.unit.cli.conftest import Program
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.api.conftest import Client

PLANTED = {"env": "planted-BvT7", "file": "planted-Qx2m", "kept": "planted/Zk@9d"}
STATEMENTS = """
CREATE STREAM s (n INT) WITH (kafka_topic='s', format='JSON', partitions=1);
CREATE SOURCE TABLE v (k INT PRIMARY KEY, n INT) WITH (kafka_topic='v', format='JSON', partitions=1);
CREATE STREAM t AS SELECT n, '${secret:db}' AS hint FROM s;
"""


def planted(headrace: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", PLANTED["env"])
    (folder / "elsewhere").write_text(PLANTED["file"] + "\n")
    words = ["--data", str(headrace.data), "secret", "set", "db"]
    result = CliRunner().invoke(cli.app, words, input=PLANTED["kept"] + "\n")
    assert result.exit_code == 0
    assert PLANTED["kept"] not in result.output
    options = f"sasl.username=me, sasl.password=${{env:PLANTED}}, ssl.key.password=${{file:{folder / 'elsewhere'}}}"
    url = "postgresql://me:${secret:db}@127.0.0.1:1/db"
    (folder / "headrace.toml").write_text(
        f"[kafka]\nclient_options = {json.dumps(options)}\n[views]\npostgres_url = {json.dumps(url)}\n"
    )


def broken(settings: Settings) -> None:
    """Secrets are used, and a library that tells everything fails."""
    logger = logging.getLogger("headrace.test")
    logfile.configure(settings)
    secret = resolve_secrets("${secret:db}", settings.storage.data)
    assert KafkaClient(settings).config()["sasl.password"] == PLANTED["env"]
    try:
        raise OSError(f"connection to {secret.reveal()} with {PLANTED['env']} and {PLANTED['file']} refused")
    except OSError as error:
        logger.exception("a library that tells everything: %s", error, extra={"secret": secret.reveal()})
    logger.warning("%s %r", secret, secret)


def served(settings: Settings) -> str:
    """What a server answers whose database cannot be reached."""
    with (
        EmbeddedLog(settings.storage.data) as log,
        Node(log, settings.replace(views_backend="postgres"), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
    ):
        ask = Client(server.host, server.port)
        told = [ask.raw("POST", "/ksql", json.dumps({"ksql": STATEMENTS}))]
        for text in ("SHOW PROPERTIES;", "SHOW QUERIES EXTENDED;", "DESCRIBE t EXTENDED;", "SELECT * FROM v;", "bad"):
            told.append(ask.raw("POST", "/ksql", json.dumps({"ksql": text})))
        told.append(ask.raw("POST", "/query", json.dumps({"ksql": "SELECT * FROM v;"})))
        for path in ("statements", "topics", "queries", "views", "openapi.json", "letters"):
            told.append(ask.raw("GET", f"/api/v1/{path}"))
        told += [ask.raw("GET", path) for path in ("/info", "/metrics", "/clusterStatus")]
    return "\n".join(f"{headers} {body.decode()}" for _, body, headers in told)


def test_no_output_file_or_log_contains_a_secret(
    headrace: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(headrace, tmp_path, monkeypatch)
    settings = load_settings({"storage_data": headrace.data})
    broken(settings)
    said = {"served": served(settings)}
    assert "${secret:db}" in said["served"]
    assert "database-unreachable" in said["served"]
    headrace("support-bundle", tmp_path / "bundle.zip")
    for words in (("settings",), ("settings", "--json"), ("secret", "list"), ("status",), ("topic", "list"), ("logs",)):
        result = CliRunner().invoke(cli.app, ["--data", str(headrace.data), *words])
        said[" ".join(words)] = result.output
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        said |= {f"bundle {name}": bundle.read(name).decode() for name in bundle.namelist()}
    headrace("backup", tmp_path / "copy")
    own = {tmp_path / "elsewhere", headrace.data / "secrets" / "db"}
    for path in set(tmp_path.rglob("*")) - own:
        said[str(path)] = path.read_bytes().decode(errors="replace") if path.is_file() else path.name
    assert "a library that tells everything" in said[str(headrace.data / "logs" / "headrace.log")]
    for place, text in said.items():
        assert not [one for one in PLANTED.values() if one in text], place


def test_a_missing_secret_is_named(headrace: Program, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="headrace secret set nothing"):
        KafkaClient(Settings.of(storage_data=tmp_path, kafka_client_options="sasl.password=${secret:nothing}"))
    assert headrace("secret", "remove", "nothing", code=1).err.startswith("not-a-data-folder: ")
