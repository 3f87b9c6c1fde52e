"""Real parts that tests of several folders share: one Kafka broker for a whole run, on free ports of 127.0.0.1.

Property tests run few examples, so that they can run at every change; `HEADRACE_HYPOTHESIS=heavy` runs many.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import timedelta

import hypothesis
import pytest

from headrace.log.kafka import jars
from headrace.log.kafka.local_cluster import LocalCluster
from headrace.settings import Settings
from tests.postgres_server import Postgres, programs

# Without a deadline: on a busy machine an example may take a second.
hypothesis.settings.register_profile("quick", max_examples=20, deadline=None)
hypothesis.settings.register_profile("heavy", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HEADRACE_HYPOTHESIS", "quick"))

# Most tests that start a server run no query. `spark/test_shared_process.py` tests a warm start.
os.environ.setdefault("HEADRACE_SPARK_WARM_START", "false")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one node. Tests share it, so each uses topics and groups of its own names."""
    jars.fetch(Settings())
    with LocalCluster.start(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka_settings(cluster: LocalCluster) -> Settings:
    return Settings.of(
        storage_log="kafka",
        kafka_bootstrap_servers=cluster.bootstrap,
        storage_group_session_timeout=timedelta(seconds=2),
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of our own. Schemas are named after data folders, so tests do not meet."""
    if programs() is None:
        pytest.skip("PostgreSQL's server is not installed here: what is particular to it is not tested")
    with Postgres.start() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.originalname}-{next(_numbers)}"
