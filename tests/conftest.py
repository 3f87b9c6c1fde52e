"""Real parts that tests of several folders share: one Kafka broker for a whole run, on free ports of 127.0.0.1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.log import jars
from headrace.log.broker import Cluster
from headrace.settings import Settings

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one node. Tests share it, so each uses topics and groups of its own names."""
    jars.fetch(Settings())
    with Cluster.start(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka_settings(cluster: Cluster) -> Settings:
    return Settings(log="kafka", kafka_servers=cluster.bootstrap, group_session=timedelta(seconds=2))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.originalname}-{next(_numbers)}"
