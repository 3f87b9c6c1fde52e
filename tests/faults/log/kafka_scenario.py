"""The Kafka rounds: clients and brokers are killed, on one node and on three, where it is the leader of a topic.

The same workers as on the embedded log, with acks=all and transactions; the same promises.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]
from tests.faults.log.ack_log import read_acks
from tests.faults.log.embedded_scenario import create_topics
from tests.faults.log.verify import DAMAGE, Findings, by_kind, check_log
from tests.faults.log.worker import KAFKA
from tests.faults.log.worker_pool import Kill, WorkerPool, WorkerSpec, worker_slots

from headrace.contracts import TopicSpec
from headrace.errors import HeadraceError
from headrace.log.kafka import KafkaLog, jars
from headrace.log.kafka.local_cluster import LocalCluster
from headrace.settings import Settings

_TRANSACTION = ("kafka.produced", "kafka.committed")
WORKERS = (
    WorkerSpec("producer", 1.5, points=()),
    WorkerSpec("bulk", 1.5, points=_TRANSACTION),
    WorkerSpec("writer", 1.5, points=_TRANSACTION),
    WorkerSpec("consumer", 1.5, points=()),
)
# Without those whose open transactions Kafka keeps for half a minute.
FEW_WORKERS = [berth for berth in WORKERS if berth.role != "bulk"]
TURN = 3  # of so many kills one is a broker's
DOWN = 2.0  # seconds that a broker is away
SETTLED = 90.0  # seconds for Kafka to give up the transactions of the dead, and to copy what a replica missed
Beat = Callable[[Kill], None]


def run_scenario(seed: int, kills: int, beat: Beat) -> tuple[list[Kill], Findings]:
    """Half of the kills on one broker, half on three."""
    jars.fetch(Settings())
    done: list[Kill] = []
    found = Findings()
    for nodes, share in ((1, kills // 2), (3, kills - kills // 2)):
        if share and not found.violations:
            done += play_round(f"{seed}.{nodes}", nodes, share, beat, found)
    return done, found


def play_round(
    name: str, nodes: int, kills: int, beat: Beat, found: Findings, cast: Sequence[WorkerSpec] = WORKERS
) -> list[Kill]:
    """A cluster and clients on it, of which at least so many die."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-faults-") as folder,
        LocalCluster.start(Path(folder) / "kafka", nodes) as cluster,
        KafkaLog(Settings.of(storage_log="kafka", kafka_bootstrap_servers=cluster.bootstrap)) as log,
    ):
        spec = TopicSpec(partitions=2, replication=nodes)
        create_topics(log, dict.fromkeys(("single", "bulk-a", "bulk-b", "exact"), spec))
        log.create_topic("keyed", TopicSpec(compact=True, replication=nodes))
        crew = WorkerPool(worker_slots(cast, name), KAFKA + cluster.bootstrap, Path(folder) / "notes")
        try:
            _kill_all(crew, cluster, log, kills, beat)
        finally:
            crew.halt(beat)
        for failure in crew.failures:
            found.add(DAMAGE, failure)
        log.writer("exact").close()  # ends what the last life of the writer left open
        _await_settled(log)
        found.join(check_log(log, by_kind(read_acks(Path(folder) / "notes"))))
        cluster.stop(grace=0)
        return crew.kills


def _kill_all(crew: WorkerPool, cluster: LocalCluster, log: KafkaLog, kills: int, beat: Beat) -> None:
    """Clients die one by one, and in every turn a broker with all of them at work."""
    for _ in range(max(kills // TURN, 1)):
        until = len(crew.kills) + TURN - 1
        crew.run(lambda so_far, until=until: len(so_far) >= until, beat)
        crew.gather(beat)
        if not crew.failures:
            _kill_broker(crew, cluster, log, beat)


def _kill_broker(crew: WorkerPool, cluster: LocalCluster, log: KafkaLog, beat: Beat) -> None:
    node, moment = 1, "only broker"
    if len(cluster.brokers) > 1:
        node, moment = _leader(log, "exact"), "leader of three"
    cluster.kill(node)
    operations = [slot.life.pulse.operation for slot in crew.slots if slot.life is not None]
    kill = Kill("broker", moment, next(filter(None, operations), ""))
    crew.kills.append(kill)
    beat(kill)
    back_at = time.monotonic() + DOWN
    crew.run(lambda _: time.monotonic() > back_at, beat)
    cluster.restart(node)
    _await_settled(log, transactions=False)


def _leader(log: KafkaLog, topic: str) -> int:
    return log._client.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader


def _await_settled(log: KafkaLog, *, transactions: bool = True) -> None:
    """Wait until all replicas are in sync, and no transaction of a dead client keeps readers back."""
    until = time.monotonic() + SETTLED
    while not (_in_sync(log) and (not transactions or _stable(log))):
        if time.monotonic() > until:
            raise TimeoutError(f"Kafka did not settle in {SETTLED:g} s")
        time.sleep(0.1)


def _in_sync(log: KafkaLog) -> bool:
    topics = log._client.admin.list_topics(timeout=10).topics
    return all(len(p.isrs) == len(p.replicas) and p.leader >= 0 for t in topics.values() for p in t.partitions.values())


def _stable(log: KafkaLog) -> bool:
    try:
        return all(_written(log, topic.name) == _readable(log, topic.name) for topic in log.topics())
    except HeadraceError:
        return False


def _readable(log: KafkaLog, topic: str) -> Sequence[int]:
    return [end for _, end in log.bounds(topic).values()]


def _written(log: KafkaLog, topic: str) -> Sequence[int]:
    """Ends with what is in open transactions."""
    places: dict[KafkaPartition, Any] = {
        KafkaPartition(topic, p): OffsetSpec.latest() for p in range(log.topic(topic).partitions)
    }
    asked = log._client.admin.list_offsets(
        places,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
    )
    ends = {place.partition: log._client.answer(future).offset for place, future in asked.items()}
    return [ends[partition] for partition in sorted(ends)]
