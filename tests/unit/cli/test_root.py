"""The program as a whole: its help, what it imports, and how it ends."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headrace import cli
from headrace.cli import commands
from headrace.cli.context import CommandContext
from headrace.cli.io import error_output
from headrace.cli.root import COMMANDS, load
from headrace.errors import LogBusy, OffsetLost, UnknownTopic
from headrace.secrets import save_secret
from tests.unit.cli.conftest import Program

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]

# A shell that starts a process in the background lets it ignore SIGINT.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from headrace.cli import main; main()
"""


def words() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        inner = getattr(load(name), "commands", None)
        found += [(name, word) for word in inner] if inner else [(name,)]
    return found


def groups() -> list[tuple[str, ...]]:
    return [(name,) for name in COMMANDS if hasattr(load(name), "commands")]


@pytest.mark.parametrize("path", words(), ids=" ".join)
def test_every_command_shows_an_example(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"], prog_name="headrace")
    assert result.exit_code == 0
    assert "Example: " in result.stdout


@pytest.mark.parametrize("path", [(), *groups(), *words()], ids=lambda path: " ".join(path) or "headrace")
def test_help_fits_80_columns(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli.app, [*path, "--help"], prog_name="headrace", env={"COLUMNS": "80"}).stdout
    examples = [line for line in shown.splitlines() if line.startswith("  Example: ")]
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "<" not in shown.replace("<=", "")  # no Python types
    assert len(examples) == shown.count("Example: ")
    assert all(line.endswith(tail) for line, tail in zip(examples, _tails(path), strict=True))  # no example wraps


def _tails(path: tuple[str, ...]) -> list[str]:
    """The last word of each example of a command."""
    command = get_command(cli.app) if not path else load(path[0])
    for word in path[1:]:
        command = command.commands[word]
    return [part.split()[-1] for part in (command.help or "").split("\n\n") if part.startswith("Example: ")]


def test_every_command_is_listed_with_its_line() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "80"}).stdout
    for name, line in COMMANDS.items():
        assert f"  {name:<15} {line}\n" in shown


@pytest.mark.parametrize("path", groups(), ids=" ".join)
def test_the_summary_of_a_subcommand_is_whole(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli.app, [*path, "--help"], env={"COLUMNS": "80"}).stdout
    assert "..." not in shown.split("Commands:")[1]


def test_every_module_with_commands_is_in_the_table() -> None:
    paths = Path(commands.__file__).parent.glob("*.py")
    modules = {path.stem for path in paths if "typer." in path.read_text()}
    assert modules == {name.replace("-", "_") for name in COMMANDS}


def test_an_error_is_shown_once_with_its_fix(headrace: Program) -> None:
    headrace("topic", "create", "a")
    answer = headrace("topic", "describe", "b", code=1)
    assert answer.err == 'unknown-topic: topic "b" does not exist\n  fix: headrace topic create b\n'
    assert answer.out == ""


@pytest.mark.parametrize("arguments", [("--json", "topic", "describe", "b"), ("topic", "describe", "b", "--json")])
def test_an_error_is_printed_as_json(headrace: Program, arguments: tuple[str, ...]) -> None:
    headrace("topic", "create", "a")
    answer = headrace(*arguments, code=1)
    assert json.loads(answer.err)["code"] == "unknown-topic"
    assert len(answer.err.splitlines()) == 1


def test_an_invalid_setting_is_an_error(headrace: Program) -> None:
    assert headrace("--log", "papyrus", "topic", "list", code=1).err.startswith("bad-setting: ")


def test_a_usage_error_has_exit_code_2(headrace: Program) -> None:
    assert "Did you mean 'topic'" in headrace("topc", code=2).err
    headrace("topic", "create", code=2)
    headrace("topic", "create", "a", "--retention-time", "soon", code=2)
    headrace("topic", "alter", "a", code=2)


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (
            ["demo", "--rate", "-5"],
            'invalid value for "--rate": it must be greater than or equal to 10',
            "see headrace demo --help",
        ),
        (["demo", "--rate", "x"], 'invalid value for "--rate": write a number', "see headrace demo --help"),
        (["demo", "--ratee", "5"], 'there is no option "--ratee"', 'did you mean "--rate"?'),
        (["--datta", "x", "status"], 'there is no option "--datta"', 'did you mean "--data"?'),
        (["topic", "create"], 'missing argument "NAME"', "see headrace topic create --help"),
        (["status", "x"], 'unexpected argument "x"', "see headrace status --help"),
        (
            ["logs", "--level", "loud"],
            'invalid value for "--level": choose one of: debug, info, warning, error',
            "see headrace logs --help",
        ),
        (
            ["sql", "--output", "xml"],
            'invalid value for "--output": "xml" is not one of "table", "json", "csv", "csv-exact"',
            "see headrace sql --help",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_a_coded_error(headrace: Program, words: list[str], what: str, fix: str) -> None:
    path = fix.removeprefix("see ").removesuffix(" --help") if fix.startswith("see ") else None
    told = headrace(*words, code=2).err.splitlines()
    assert told[0] == f"bad-command-line: {what}"
    assert told[1].startswith("  at headrace")
    assert path is None or told[1] == f"  at {path}"
    assert told[2:] == [f"  fix: {fix}"]
    assert json.loads(headrace("--json", *words, code=2).err) | {"where": ""} == {
        "code": "bad-command-line",
        "what": what,
        "where": "",
        "fix": fix,
    }


def test_a_group_of_commands_alone_shows_its_help(headrace: Program) -> None:
    assert headrace("topic", code=2).err.startswith("Usage: headrace topic [OPTIONS] COMMAND")


def test_a_transient_error_has_exit_code_75() -> None:
    assert error_output.exit_code(LogBusy("x")) == 75
    assert error_output.exit_code(UnknownTopic("x")) == 1
    assert error_output.exit_code(OffsetLost("x")) == 1


def test_reading_commands_do_not_create_the_data_folder(headrace: Program) -> None:
    assert headrace("topic", "list", code=1).err.startswith("not-a-data-folder: ")
    assert not headrace.data.exists()


def test_the_settings_file_is_read(headrace: Program, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[query]\nmax_batch_rows = 7\n[kafka]\nclient_options = "sasl.password=hunter2"\n')
    rows = {row["name"]: row for row in headrace("--config", config, "settings", "--json").json}
    assert (rows["query.max_batch_rows"]["value"], rows["query.max_batch_rows"]["origin"]) == (7, str(config))
    assert rows["storage.data"]["origin"] == "flag"
    assert rows["storage.file_delete_delay"]["value"] == "10m"
    assert "hunter2" not in rows["kafka.client_options"]["value"]
    assert "hunter2" not in headrace("--config", config, "settings").out


def test_the_version_command_prints_the_version(headrace: Program) -> None:
    from headrace import __version__

    assert headrace("version").out == f"headrace {__version__}\n"
    assert headrace("version", "--json").json["headrace"] == __version__


@pytest.mark.parametrize("program", [PROGRAM, [sys.executable, "-m", "headrace"]], ids=["script", "module"])
def test_the_version_option(program: list[str]) -> None:
    from headrace import __version__

    done = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"headrace {__version__}\n"


def test_a_reader_that_closes_the_pipe_early_causes_no_traceback() -> None:
    whole = shlex.join([*PROGRAM, "settings"])
    pipe = ["bash", "-c", f"{whole} | head -n 1; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(pipe, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)


def test_only_the_root_command_installs_completion() -> None:
    assert "install_completion" in [p.name for p in get_command(cli.app).params]
    assert "install_completion" not in [p.name for p in load("version").params]


# -- how a command ends ---------------------------------------------------------------------------------------------


def test_an_unexpected_error_names_a_file_with_its_traceback(
    headrace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.delenv("HEADRACE_TRACEBACK", raising=False)
    monkeypatch.setattr(CommandContext, "settings", fail)
    told = json.loads(headrace("--json", "status", code=1).err)
    assert told["code"] == "internal-error"
    assert "RuntimeError: boom" in told["what"]
    details = Path(told["where"])
    assert details.read_text().startswith("Traceback")
    details.unlink()
    monkeypatch.setenv("HEADRACE_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="boom"):
        headrace("status")


@pytest.mark.parametrize("words", [["consume", "a", "--follow"], ["logs", "--follow"]], ids=" ".join)
def test_ctrl_c_ends_a_waiting_command_with_one_line(headrace: Program, lines: Any, words: list[str]) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines("one"))
    (headrace.data / "logs").mkdir(exist_ok=True)
    (headrace.data / "logs" / "headrace.log").write_text('{"message": "server started"}\n')
    command = [sys.executable, "-c", INTERRUPTIBLE, "--data", str(headrace.data), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline().strip()  # it has printed what there is, and waits for more
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=60)
    assert (waiting.returncode, told) == (130, "stopped by Ctrl-C\n")


# -- suggestions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "near"),
    [
        (["topic", "describe", "ordres"], "unknown-topic", "orders"),
        (["topic", "delete", "ordres", "--yes"], "unknown-topic", "orders"),
        (["consume", "ordres"], "unknown-topic", "orders"),
        (["consume", "ordres", "--group", "g"], "unknown-topic", "orders"),
        (["group", "describe", "biling"], "unknown-group", "billing"),
        (["group", "delete", "biling"], "unknown-group", "billing"),
        (["user", "remove", "an"], "unknown-user", "ann"),
        (["token", "create", "an"], "unknown-user", "ann"),
        (["user", "roles", "ann", "--role", "wirter"], "unknown-role", "writer"),
        (["role", "revoke", "clerk", "read", "topic", "x"], "unknown-role", "clerks"),
        (["secret", "remove", "smpt"], "unknown-secret", "smtp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_suggests_the_nearest_one(
    headrace: Program, lines: Any, words: list[str], code: str, near: str
) -> None:
    headrace("topic", "create", "orders")
    headrace("produce", "orders", lines("one"))
    headrace("consume", "orders", "--group", "billing")
    headrace("user", "add", "ann", "--no-password")
    headrace("role", "grant", "clerks", "read", "topic", "x")
    save_secret("smtp", "x", headrace.data)
    told = headrace(*words, code=1).err
    assert told.startswith(f"{code}: ")
    assert told.endswith(f'fix: did you mean "{near}"?\n')
