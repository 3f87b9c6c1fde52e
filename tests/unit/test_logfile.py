"""The log file: JSON lines, rotated, shared by processes."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import logfile
from headrace.errors import BadSetting, LogBusy
from headrace.settings import Settings, Size

PROCESSES, LINES = 3, 200


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    yield
    logfile.close()


def written(folder: Path) -> list[dict]:
    files = sorted((folder / "logs").glob("headrace.log*"))
    return [json.loads(line) for file in files if file.suffix != ".lock" for line in file.read_text().splitlines()]


def test_a_line_is_a_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logfile.configure(Settings.of(storage_data=tmp_path))
    logging.getLogger("headrace.log").info("merged %d extents", 3, extra={"topic": "orders"})
    (line,) = written(tmp_path)
    assert (line["level"], line["logger"], line["message"]) == ("info", "headrace.log", "merged 3 extents")
    assert line["fields"] == {"topic": "orders"}
    assert line["time"].endswith("Z")
    assert capsys.readouterr() == ("", "")


def test_errors_keep_their_code(tmp_path: Path) -> None:
    logfile.configure(Settings.of(storage_data=tmp_path))
    logger = logging.getLogger("headrace.x")
    for error in (LogBusy("busy", where="here", fix="wait"), ValueError("odd")):
        try:
            raise error
        except Exception:
            logger.exception("failed")
    ours, other = (line["error"] for line in written(tmp_path))
    assert ours == {"code": "log-busy", "what": "busy", "where": "here", "fix": "wait"}
    assert (other["code"], other["what"]) == ("ValueError", "odd")
    assert "Traceback" in other["trace"]


def test_levels_are_configured(tmp_path: Path) -> None:
    logfile.configure(Settings.of(storage_data=tmp_path, logging_level="warning"))
    logging.getLogger("headrace").info("no")
    logging.getLogger("headrace").warning("yes")
    assert [line["message"] for line in written(tmp_path)] == ["yes"]
    with pytest.raises(BadSetting):
        logfile.configure(Settings.of(storage_data=tmp_path, logging_level="loud"))


def test_rotation_keeps_the_configured_number_of_files(tmp_path: Path) -> None:
    logfile.configure(Settings.of(storage_data=tmp_path, logging_max_file_bytes=Size(1000), logging_max_files=2))
    for i in range(100):
        logging.getLogger("headrace").info("line %d", i)
    files = [p for p in (tmp_path / "logs").iterdir() if p.suffix != ".lock"]
    assert len(files) == 3
    assert all(file.stat().st_size <= 1000 for file in files)
    assert max(int(line["message"].split()[1]) for line in written(tmp_path)) == 99


def test_configuring_again_replaces_the_file(tmp_path: Path) -> None:
    logfile.configure(Settings.of(storage_data=tmp_path / "one"))
    logfile.configure(Settings.of(storage_data=tmp_path / "two"))
    logging.getLogger("headrace").info("x")
    assert written(tmp_path / "one") == []
    assert len(written(tmp_path / "two")) == 1


def _log_much(folder: Path, number: int) -> None:
    logfile.configure(Settings.of(storage_data=folder, logging_max_file_bytes=Size(5_000), logging_max_files=1_000))
    for i in range(LINES):
        logging.getLogger("headrace").info("%d", i, extra={"process_number": number})


def test_processes_share_the_file_and_its_rotation(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_log_much, args=(tmp_path, n)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    lines = written(tmp_path)
    found = sorted((line["fields"]["process_number"], int(line["message"])) for line in lines)
    assert found == [(n, i) for n in range(PROCESSES) for i in range(LINES)]
    assert len(list((tmp_path / "logs").iterdir())) > 10


def test_an_unwritable_file_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = logfile.configure(Settings.of(storage_data=tmp_path))
    logger = logging.getLogger("headrace.a")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(handler, "_follow", full)
        logger.warning("one")
        logger.warning("two")
    logger.warning("three")
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert [line["message"] for line in written(tmp_path)] == ["three"]
