"""`headrace log`, `backup`, `restore` and `doctor`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.control.admin import doctor
from headrace.engine.io.sink import EmbeddedBatchCommitter
from headrace.engine.io.written_output import output_note
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings, Size
from tests.unit.cli.conftest import Program


def test_log_stats_check_and_compact_succeed(headrace: Program, lines) -> None:
    headrace("topic", "create", "u", "--compact", "--schema", "id bigint key, name string")
    for name in ("a", "b", "c"):
        headrace("produce", "u", lines(f'{{"id":1,"name":"{name}"}}'))
    assert headrace("storage", "stats", "--json").json["unmerged"] == 3
    assert headrace("storage", "compact", "u", "--json").json["compacted"] == 1
    stats = headrace("storage", "stats", "--json").json
    assert (stats["rows"], stats["unmerged"]) == (1, 0)
    assert [row["name"] for row in headrace("consume", "u").lines] == ["c"]
    assert headrace("storage", "check", "--json").json["findings"] == []
    assert "no damage" in headrace("storage", "check").out
    assert headrace("storage", "compact", "nothing", code=1).err.startswith("unknown-topic: ")


def test_damage_gives_exit_code_1(headrace: Program, lines) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines(*("x" * 100 for _ in range(5_000))))
    (file,) = (headrace.data / "extents").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert f"file {file.name}" in headrace("storage", "check", code=1).out
    (finding,) = headrace("storage", "check", "--json", code=1).json["findings"]
    assert (finding["kind"], finding["damage"]) == ("checksum", True)
    assert headrace("consume", "a", code=1).err.startswith("damaged-extent: ")


def test_a_restored_backup_has_all_rows(headrace: Program, lines, tmp_path: Path) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines("1", "2"))
    headrace("backup", tmp_path / "copy")
    headrace("produce", "a", lines("3"))
    assert headrace("--data", tmp_path / "copy", "consume", "a").out == "1\n2\n"
    assert headrace("restore", tmp_path / "copy", "--data", tmp_path / "new", "--json").json["rows"] == 2
    assert headrace("--data", tmp_path / "new", "consume", "a").out == "1\n2\n"
    assert headrace("restore", tmp_path / "copy", code=1).err.startswith("backup-failed: ")
    assert headrace("consume", "a").out == "1\n2\n3\n"


def test_restore_names_queries_whose_state_is_not_in_the_backup(headrace: Program, lines, tmp_path: Path) -> None:
    headrace("topic", "create", "o")
    headrace("topic", "create", "p")
    headrace("produce", "o", lines("1"))
    with EmbeddedLog(headrace.data) as log:
        for query, topic, program, has_state in (
            ("CSAS_O_0", "o", "server", False),
            ("CTAS O 1", "o", "orders", True),
            ("CSAS_P_2", "p", "server", False),  # has written nothing that is still there
        ):
            note = output_note(query, log.topic(topic), {"sequence": 1}, program, has_state=has_state)
            EmbeddedBatchCommitter(log, query, lambda _, note=note: note).commit(0, [])
    headrace("backup", tmp_path / "copy")
    restored = headrace("restore", tmp_path / "copy", "--data", tmp_path / "new", "--json").json
    assert restored["undecided"] == [
        {
            "query": "orders/CTAS=20.O=20.1",
            "topic": "o",
            "decision": "headrace state recover orders/CTAS=20.O=20.1 --reprocess",
        },
        {
            "query": "server/CSAS_O_0",
            "topic": "o",
            "decision": "headrace state recover server/CSAS_O_0 --resume-from-output",
        },
    ]
    for row in restored["undecided"]:
        headrace("--data", tmp_path / "new", *row["decision"].split()[1:], "--yes")
    shown = headrace("restore", tmp_path / "copy", "--data", tmp_path / "other")
    assert "state recover server/CSAS_O_0 --resume-from-output" in " ".join(shown.out.split())


def test_the_embedded_tools_refuse_kafka(headrace: Program, tmp_path: Path) -> None:
    for command in (
        ("storage", "check"),
        ("storage", "stats"),
        ("backup", tmp_path / "x"),
        ("restore", tmp_path / "x"),
    ):
        assert headrace("--log", "kafka", *command, code=1).err.startswith("not-on-this-log: ")


def test_doctor_runs_every_check(headrace: Program) -> None:
    headrace("topic", "create", "a")
    found = {row["check"]: row for row in headrace("doctor", "--json").json}
    assert {"settings", "python", "java", "spark", "memory", "disk", "data folder", "clock"} <= found.keys()
    assert all(row["state"] in ("ok", "warn") for row in found.values())
    assert "headrace 1" in headrace("doctor").out


def test_doctor_reports_invalid_settings(headrace: Program, tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text("[query]\nmax_batch_rowz = 1\n")
    first, *_ = headrace("--config", config, "doctor", "--json", code=1).json
    assert (first["check"], first["state"], first["fix"]) == (
        "settings",
        "fail",
        "did you mean max_batch_rows in section [query]?",
    )


def test_findings_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (java,) = doctor.check_java(Settings())
    assert (java.state, java.fix) == ("fail", "apt-get install openjdk-17-jre-headless")
    (memory,) = doctor.check_memory(Settings.of(spark_driver_memory=Size(1 << 60)))
    assert memory.state == "warn"
    (tmp_path / "FORMAT").write_text("headrace 999\n")
    (form,) = doctor.check_data_format(Settings.of(storage_data=tmp_path))
    assert form.state == "fail"
    (tmp_path / "FORMAT").unlink()
    (tmp_path / "letters").touch()
    (form,) = doctor.check_data_format(Settings.of(storage_data=tmp_path))
    assert form.state == "fail"
    missing = Settings.of(storage_data=tmp_path, kafka_jars=tmp_path / "jars")
    assert [f.state for f in doctor.check_kafka(missing) if f.check == "kafka jars"] == ["warn"]


@pytest.mark.parametrize(
    "name", ["logs", "secrets", "token.secret", "local.secret", "push.key", "kafka", "checkpoints", "views"]
)
def test_doctor_accepts_a_data_folder_without_topics(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (form,) = doctor.check_data_format(Settings.of(storage_data=tmp_path))
    assert form.state == "ok"
    with EmbeddedLog(tmp_path):  # which is of the same mind
        assert (tmp_path / "FORMAT").exists()


def test_doctor_fails_if_a_configured_kafka_does_not_respond(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = Settings.of(storage_log="kafka", kafka_bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}")
        assert [f.state for f in doctor.check_kafka(used) if f.check == "kafka servers"] == ["ok"]
    assert [f.state for f in doctor.check_kafka(used) if f.check == "kafka servers"] == ["fail"]


def test_damage_is_repaired_once_it_is_confirmed(headrace: Program, lines) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines(*("x" * 100 for _ in range(5_000))))
    headrace("produce", "a", lines("kept"))
    assert "no damage" in headrace("storage", "repair", "--yes").err
    (file,) = (headrace.data / "extents").iterdir()
    file.write_bytes(file.read_bytes()[:1_000])
    assert "Aborted" in headrace("storage", "repair", code=1).err
    assert file.exists()
    assert "mark them as lost" in headrace("storage", "repair", "--yes").out
    assert (headrace.data / "damaged" / file.name).exists()
    assert "no damage" in headrace("storage", "check").out
    assert headrace("consume", "a", code=1).err.startswith("records-lost: ")
    headrace("storage", "repair", "--skip-lost", "--yes")
    assert headrace("consume", "a").out == "kept\n"


def test_a_damaged_database_is_reported_by_each_command(headrace: Program) -> None:
    headrace("topic", "create", "a")
    (headrace.data / "log.db").write_bytes(b"")
    for command in (("topic", "list"), ("storage", "stats"), ("consume", "a"), ("doctor", "--json")):
        told = headrace(*command, code=1)
        assert "is empty" in told.err + told.out
    assert headrace("storage", "repair", "--yes", code=1).err.startswith("not-repairable: ")
