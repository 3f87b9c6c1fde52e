"""One life of a worker: `python -m tests.faults.log.worker ROLE LIFE NOTES PLACE`, until it is killed.

PLACE is a data folder, or `kafka:` and the addresses of brokers. NOTES is where the life leaves its facts and pulse.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import random
import signal
import sys
from datetime import timedelta
from pathlib import Path

from tests.faults.log.ack_log import AckLog
from tests.faults.log.activity import ActivityPage
from tests.faults.log.workloads import ROLES, Worker

from headrace.contracts import Log
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings, Size

KAFKA = "kafka:"
_PR_SET_PDEATHSIG = 1

# Small, so that files, merges and archives happen all the time.
SETTINGS = Settings.of(
    storage_inline_bytes=Size(4096),
    storage_maintenance_interval=timedelta(0),
    storage_file_delete_delay=timedelta(milliseconds=300),
    storage_group_session_timeout=timedelta(seconds=2),
)


def open_log(place: str) -> Log:
    if not place.startswith(KAFKA):
        return EmbeddedLog(place, SETTINGS)
    from headrace.log.kafka import KafkaLog

    return KafkaLog(
        Settings.of(
            storage_log="kafka",
            kafka_bootstrap_servers=place.removeprefix(KAFKA),
            storage_group_session_timeout=timedelta(seconds=6),
        )
    )


class WithoutPandas:
    """pyarrow loads pandas unasked where it can: a second for each life."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def die_with_parent() -> None:
    """Never outlive the campaign, also when that is killed itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit("the parent is gone already")


def main(role: str, life: str, notes: str, place: str) -> None:
    die_with_parent()
    faulthandler.register(signal.SIGUSR1)  # says where a worker that does not move is stuck
    folder = Path(notes)
    pulse, notebook = ActivityPage(folder / f"{life}.pulse"), AckLog(folder / f"{life}.facts")
    if role == "spark":
        from tests.faults.log.spark_writer import stream

        stream(Path(place), pulse, drain=life.endswith("drain"))
        return
    sys.meta_path.insert(0, WithoutPandas())
    ROLES[role](Worker(life, open_log(place), pulse, notebook, random.Random(life)))


if __name__ == "__main__":
    main(*sys.argv[1:])
