"""A script that runs its own app in separate processes: killed, restarted, and inspected."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests import memory_and_spark

SCRIPT = """
import json, os, signal, sys
import headrace as hr

app = hr.App("words")
words = app.stream("words", "who STRING KEY, word STRING")

@app.function
def twice(word: str) -> str:
    return word + word

class Counted(hr.Operator):
    output = "n BIGINT"

    def on_event(self, event, ctx):
        ctx.state = (ctx.state or 0) + 1
        ctx.emit(n=ctx.state)

words.operate(Counted).to_stream("counted")
words.group_by("word").count().to_table("per_word")
app.ksql("CREATE STREAM doubled AS SELECT who, TWICE(word) AS word FROM words;")

if __name__ == "__main__" and sys.argv[1] == "first":
    running = hr.start(app, data="data")
    running.send("words", [{"who": "ann", "word": "a"}, {"who": "ann", "word": "b"}, {"who": "bob", "word": "a"}])
    live = running.live("per_word")
    running.wait(until_idle=True)
    seen = live.rows
    running.send("words", [{"who": "ann", "word": "a"}])
    print(json.dumps(seen), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
hr.run(app, until_idle=True, data="data")
"""


def run(folder: Path, word: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "script.py", word]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=200)


def test_a_killed_script_resumes_without_repeating_results(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    first = run(tmp_path, "first")
    assert first.returncode == -signal.SIGKILL, first.stderr
    seen = json.loads(first.stdout)
    assert sorted(seen, key=str) == [{"word": "a", "n": 2}, {"word": "b", "n": 1}]
    second = run(tmp_path, "second")
    assert second.returncode == 0, second.stderr
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_data=tmp_path / "data")) as log:
        assert values(log, "COUNTED") == {b'"ann"': ['{"N":1}', '{"N":2}', '{"N":3}'], b'"bob"': ['{"N":1}']}
        assert values(log, "PER_WORD")[b'"a"'][-1] == '{"N":3}'
        assert values(log, "DOUBLED")[b'"ann"'] == ['{"WORD":"aa"}', '{"WORD":"bb"}', '{"WORD":"aa"}']


def values(log: EmbeddedLog, topic: str) -> dict[bytes | None, list[str]]:
    found: dict[bytes | None, list[str]] = {}
    for key, value, _ in memory_and_spark.written(log, topic):
        found.setdefault(key, []).append((value or b"").decode())
    return found
