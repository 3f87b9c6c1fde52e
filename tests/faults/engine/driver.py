"""One life of the job: `python -m tests.faults.engine.driver` with the arguments of `main`.

It lasts until it is killed or, if `until` is `idle`, until nothing is left to do. A query that fails is started
again, in the same process. After the first batch it leaves `LIFE.working` in `notes`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.engine import job
from tests.faults.log.worker import die_with_parent

from headrace.clock import ManualClock
from headrace.control.program import Program
from headrace.errors import HeadraceError
from headrace.settings import Settings

WHOLE = 1000  # rows of a batch of the undisturbed life


def main(folder: str, servers: str, master: str, notes: str, life: str, until: str) -> int:
    die_with_parent()
    rows = WHOLE if until == "idle" else job.BATCH_ROWS
    given = job.settings(Path(folder), "" if servers == "-" else servers, master).replace(query_max_batch_rows=rows)
    with job.open_log(given) as log:
        while True:
            try:
                return _run(log, given, Path(notes) / f"{life}.working", idle=until == "idle")
            except HeadraceError as error:
                print(error, file=sys.stderr, flush=True)


def _run(log: job.Log, given: Settings, working: Path, *, idle: bool) -> int:
    with Program(log, given, name=job.PROGRAM, clock=ManualClock()) as program:
        program.execute(job.SCRIPT)

        def look() -> None:
            if any(running.progress.batches for running in program.running.values()):
                working.touch()

        program.wait(until_idle=idle, on_poll=look)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
