"""The benchmark command in its own process, with the harness's self-test table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench import ROOT
from bench.harness.workers import Gate, run_workers

SETTINGS = (ROOT / "bench" / "settings" / "selftest.toml").read_text()


def bench(out: Path, *arguments: str, settings: str) -> subprocess.CompletedProcess[str]:
    out.mkdir(exist_ok=True)
    (out / "settings.toml").write_text(settings)
    command = [sys.executable, "-m", "bench", "selftest", "--quick", "--settings", str(out / "settings.toml")]
    command += ["--out", str(out), *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(out.parent / "cache")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def result(out: Path) -> dict:
    (file,) = out.glob("selftest-*.json")
    return json.loads(file.read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a warm-up in which every target is met."""
    out = tmp_path_factory.mktemp("bench") / "out"
    settings = SETTINGS.replace("warmups = 0", "warmups = 1")
    ran = bench(out, "--repeats", "1", "--only", "hash", "--only", "paced", settings=settings)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (out.parent / "said").write_text(ran.stdout)
    return out


def test_json_contains_every_run_of_every_side(done: Path) -> None:
    told = result(done)
    assert told["ok"] is True
    assert told["quick"] is True
    assert {"cpu", "cores", "memory_gb", "kernel", "python", "commit", "libraries", "fsync_ms"} <= set(told["machine"])
    assert [case["name"] for case in told["cases"]] == ["hash", "paced"]
    sides = told["cases"][0]["sides"]
    assert set(sides) == {"ours", "md5", "elsewhere"}
    for side in sides.values():
        assert [run["warmup"] for run in side["runs"]] == [True, False]
        assert side["summary"]["rate"]["min"] <= side["summary"]["rate"]["median"] <= side["summary"]["rate"]["max"]
        assert {"tree_cpu_seconds", "peak_rss_mb", "peak_private_mb"} <= set(side["runs"][0]["metrics"])


def test_sides_alternate_after_a_warm_up(done: Path) -> None:
    told = [line.split()[1:3] for line in (done.parent / "said").read_text().splitlines() if line.startswith("hash")]
    sides = ["ours", "md5", "elsewhere"]
    assert told == [[side, part] for part in ("warm-up", "run") for side in sides]


def test_settings_of_the_file_and_of_the_side_are_applied(done: Path) -> None:
    sides = result(done)["cases"][0]["sides"]
    assert sides["md5"]["settings"] == {"records": 2000, "block_bytes": 1000, "algorithm": "md5"}
    assert {run["metrics"]["records"] for side in sides.values() for run in side["runs"]} == {2000}


def test_a_peer_runs_in_its_own_environment(done: Path) -> None:
    (_, first, *_) = result(done)["cases"][0]["sides"]["elsewhere"]["runs"]
    assert first["metrics"]["own_environment"] == 1


def test_latencies_are_stored_as_percentiles_and_a_curve(done: Path) -> None:
    run = result(done)["cases"][1]["sides"]["ours"]["runs"][-1]
    assert {"p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"} <= set(run["metrics"])
    assert run["curve"][-1] == [1.0, run["metrics"]["max_ms"]]


def test_results_are_written_as_html_and_markdown(done: Path) -> None:
    (page,), (markdown,) = done.glob("*.html"), done.glob("*.md")
    assert page.read_text().count("<img") == 2
    assert "://" not in page.read_text().replace("http://www.w3.org", "")
    assert "| hash | rate |" in markdown.read_text()
    assert sorted(file.suffix for file in done.iterdir()) == [".html", ".json", ".md", ".toml"]


def test_a_missed_target_fails_the_command(tmp_path: Path) -> None:
    impossible = SETTINGS.replace("rate >= 0.1 x md5", "rate >= 1000000 x md5")
    ran = bench(tmp_path / "out", "--only", "hash", settings=impossible)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "missed" in ran.stdout
    assert result(tmp_path / "out")["ok"] is False


def test_a_side_that_raises_fails_the_command_and_not_the_others(tmp_path: Path) -> None:
    broken = SETTINGS.replace("broken = false", "broken = true")
    ran = bench(tmp_path / "out", "--only", "broken", "--only", "paced", settings=broken)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "broken on purpose" in ran.stdout
    first, second = result(tmp_path / "out")["cases"]
    assert [verdict["state"] for verdict in first["verdicts"]] == ["failed"]
    assert first["sides"]["other"]["runs"][0]["error"] is None
    assert [verdict["state"] for verdict in second["verdicts"]] == ["ok"]


def meet(index: int, gate: Gate, parent: int) -> tuple[int, bool]:
    gate.wait()
    return index, os.getpid() == parent


def test_processes_start_together() -> None:
    assert run_workers(meet, 2, os.getpid(), processes=True) == [(0, False), (1, False)]
