"""Local brokers: they start, die, restart, replace each other, and never outlive their parent."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.contracts import Ack, Append, TopicSpec
from headrace.errors import KafkaNotInstalled, PortInUse
from headrace.log.kafka import KafkaLog, jars
from headrace.log.kafka.local_cluster import HOST, LocalCluster, free_ports
from headrace.log.kafka.topics import TOPICS_TOPIC
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings

pytestmark = pytest.mark.kafka


def append(log: KafkaLog, topic: str, *values: bytes) -> None:
    log.append([Append(topic, from_records([Record(value) for value in values]))], ack=Ack.ALL)


def values_of(log: KafkaLog, topic: str) -> list[bytes]:
    offset, end = log.bounds(topic)[0]
    values: list[bytes] = []
    while offset < end:
        batch = log.read(topic, 0, offset)
        values += batch.rows.column("value").to_pylist()
        offset = batch.next_offset
    return values


@pytest.mark.faults
def test_a_killed_broker_restarts_with_its_rows(tmp_path: Path) -> None:
    with (
        LocalCluster.start(tmp_path) as cluster,
        KafkaLog(Settings.of(kafka_bootstrap_servers=cluster.bootstrap)) as log,
    ):
        log.create_topic("t")
        append(log, "t", b"a")
        append(log, "t", b"b", b"c")
        cluster.kill(1)
        assert not cluster.broker(1).alive
        cluster.restart(1)
        append(log, "t", b"d")
        assert values_of(log, "t") == [b"a", b"b", b"c", b"d"]
    assert not cluster.broker(1).alive
    with LocalCluster.start(tmp_path) as again, KafkaLog(Settings.of(kafka_bootstrap_servers=again.bootstrap)) as log:
        assert values_of(log, "t") == [b"a", b"b", b"c", b"d"]


def create_with_the_leader_of_the_registry(log: KafkaLog, topic: str) -> int:
    """Create a topic with the leader that the register of topics has, so that both lose it at once; tell who it is."""
    while True:
        log.create_topic(topic, TopicSpec(replication=3))
        topics = log._client.admin.list_topics(timeout=10).topics
        leaders = {name: topics[name].partitions[0].leader for name in (topic, TOPICS_TOPIC)}
        if len(set(leaders.values())) == 1:
            return leaders[topic]
        log.delete_topic(topic)


@pytest.mark.faults
def test_three_brokers_lose_no_row_when_the_leader_is_killed(tmp_path: Path) -> None:
    with (
        LocalCluster.start(tmp_path, nodes=3) as cluster,
        KafkaLog(Settings.of(kafka_bootstrap_servers=cluster.bootstrap)) as log,
    ):
        leader = create_with_the_leader_of_the_registry(log, "t")
        writer = log.writer("w")
        append(log, "t", b"single")
        append(log, "t", b"in a", b"transaction")
        writer.append(0, [Append("t", from_records([Record(b"by a writer")]))])
        cluster.kill(leader)
        append(log, "t", b"single again")
        append(log, "t", b"in another", b"transaction")
        writer.append(1, [Append("t", from_records([Record(b"by a writer again")]))])
        expected = [b"single", b"in a", b"transaction", b"by a writer"]
        expected += [b"single again", b"in another", b"transaction", b"by a writer again"]
        assert values_of(log, "t") == expected
        cluster.restart(leader)
        assert all(broker.alive for broker in cluster.brokers)
        assert values_of(log, "t") == expected
        cluster.stop(grace=0)


STARTER = """
import sys, time
from pathlib import Path
from headrace.log.kafka.local_cluster import LocalCluster
cluster = LocalCluster.start(Path(sys.argv[1]))
print(cluster.broker(1).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.faults
def test_a_broker_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    broker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    broker.wait(timeout=60)


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PortInUse):
        LocalCluster.start(tmp_path, ports=[taken.getsockname()[1]])


def test_missing_jars_are_an_error_with_a_fix(tmp_path: Path) -> None:
    for wanted in (jars.broker_classpath, jars.spark_jars):
        with pytest.raises(KafkaNotInstalled) as caught:
            wanted(Settings.of(kafka_jars=tmp_path))
        assert caught.value.fix == "headrace kafka jars"


def test_a_failed_download_of_jars_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaNotInstalled) as caught:
        jars.fetch(Settings.of(kafka_jars=tmp_path / "jars"))
    assert "mvn" in caught.value.what
    assert list((tmp_path / "jars").iterdir()) == []


def test_the_command_fetches_jars_once(cluster: LocalCluster) -> None:
    assert "ready" in CliRunner().invoke(app, ["kafka", "jars"]).output
    quiet = CliRunner().invoke(app, ["kafka", "jars", "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_the_command_runs_brokers_until_it_is_interrupted(cluster: LocalCluster, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "kafka", "up", "--port", str(port)]
    running = subprocess.Popen(
        [*command, "--folder", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert running.stdout is not None
    said = next(line for line in running.stdout if "Kafka is running at" in line)
    assert re.search(rf"127\.0\.0\.1:{port}\b", said)
    with KafkaLog(Settings.of(kafka_bootstrap_servers=f"{HOST}:{port}")) as log:
        assert log.topics() == []
    taken = subprocess.run([*command, "--folder", str(tmp_path / "b")], capture_output=True, text=True, check=False)
    assert (taken.returncode, "port-in-use" in taken.stderr) == (1, True)
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 0
