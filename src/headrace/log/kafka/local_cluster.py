"""Local Kafka brokers for development and tests: KRaft nodes that are broker and controller in one.

They listen on 127.0.0.1 only. A broker dies with the process that started it, even if that process is killed with -9.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import BrokerRefused, BrokerUnreachable, MissingDependency, PortInUse
from headrace.log.kafka.jars import broker_classpath
from headrace.private_folder import make_private
from headrace.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

HOST = "127.0.0.1"
READY_SECONDS = 60
STOP_SECONDS = 10

# Linux kills a child when the *thread* that started it exits, so one thread with the process's lifetime starts them
# all.
_starter = ThreadPoolExecutor(1, "headrace-broker-starter")

# The child sets its parent-death signal and then becomes the broker; `preexec_fn` would not be safe with threads.
DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent process has exited")
os.execv(sys.argv[2], sys.argv[2:])
"""

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n%throwable{short}
"""


@dataclass(frozen=True)
class Listener:
    """A listener in addition to the plain one: its security protocol, and Kafka's settings for it."""

    name: str
    protocol: str
    port: int
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def properties(self) -> Mapping[str, object]:
        return {f"listener.name.{self.name.lower()}.{key}": value for key, value in self.settings.items()}


@dataclass
class Broker:
    """One node: its folder, its ports, its process."""

    node: int
    folder: Path
    port: int
    controller_port: int
    listeners: Sequence[Listener] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.alive and self.process else None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def properties(self, brokers: Sequence[Broker]) -> Mapping[str, object]:
        """`server.properties` of a node in a cluster of these brokers."""
        copies = min(len(brokers), 3)
        in_sync = 2 if copies == 3 else 1
        listeners = [Listener("PLAINTEXT", "PLAINTEXT", self.port), *self.listeners]
        controller = Listener("CONTROLLER", "PLAINTEXT", self.controller_port)
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(f"{b.node}@{HOST}:{b.controller_port}" for b in brokers),
            "listeners": ",".join(f"{listener.name}://{listener.address}" for listener in (*listeners, controller)),
            "advertised.listeners": ",".join(f"{listener.name}://{listener.address}" for listener in listeners),
            "controller.listener.names": controller.name,
            "listener.security.protocol.map": ",".join(
                f"{listener.name}:{listener.protocol}" for listener in (*listeners, controller)
            ),
            **{name: value for listener in listeners for name, value in listener.properties().items()},
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            # A dead client or broker should be detected within seconds, not minutes.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 100,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "log.retention.check.interval.ms": 5000,
            "log.cleaner.backoff.ms": 1000,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
        }


class LocalCluster:
    """Brokers that form one Kafka cluster. Use it as a context manager, or call `stop`."""

    def __init__(self, brokers: Sequence[Broker], settings: Settings) -> None:
        self.brokers = tuple(brokers)
        self._classpath = broker_classpath(settings)
        self._java = shutil.which("java")
        if self._java is None:
            raise MissingDependency("Java is not installed", fix="install a Java runtime, version 17 or later")

    @classmethod
    def start(
        cls,
        folder: Path,
        nodes: int = 1,
        ports: Sequence[int] | None = None,
        settings: Settings | None = None,
        listeners: Sequence[Listener] = (),
    ) -> LocalCluster:
        """Start brokers with their data in `folder` and wait until they respond. An existing cluster is started again.

        The first node gets the additional listeners.
        """
        broker_ports = list(ports) if ports is not None else free_ports(nodes)
        brokers = [
            Broker(i + 1, folder / f"node-{i + 1}", port, controller)
            for i, (port, controller) in enumerate(zip(broker_ports, free_ports(nodes, broker_ports), strict=True))
        ]
        brokers[0].listeners = listeners
        cluster = cls(brokers, settings or Settings())
        for broker in brokers:
            _check_free(broker.port)
        try:
            cluster._format(folder)
            for broker in brokers:
                cluster._launch(broker)
            cluster.wait_ready()
        except BaseException:
            cluster.stop(grace=0)
            raise
        return cluster

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def broker(self, node: int) -> Broker:
        return self.brokers[node - 1]

    def kill(self, node: int) -> None:
        """Kill one node with -9."""
        _end(self.broker(node), signal.SIGKILL, STOP_SECONDS)

    def restart(self, node: int) -> None:
        """Start one node again with its data, and wait until the whole cluster responds."""
        _end(self.broker(node), signal.SIGTERM, STOP_SECONDS)
        self._launch(self.broker(node))
        self.wait_ready()

    def stop(self, grace: float = STOP_SECONDS) -> None:
        """Stop all nodes; those that do not exit within the grace period are killed."""
        living = [broker for broker in self.brokers if broker.alive]
        for broker in living:
            assert broker.process is not None
            broker.process.terminate()
        until = time.monotonic() + grace
        for broker in living:
            _end(broker, None, max(0.0, until - time.monotonic()))

    def wait_ready(self) -> None:
        """Wait until every running node responds and knows all the others."""
        from confluent_kafka.admin import AdminClient

        living = {broker.node: broker for broker in self.brokers if broker.alive}
        clients = {n: AdminClient({"bootstrap.servers": b.address, "log_level": 0}) for n, b in living.items()}
        until = time.monotonic() + READY_SECONDS
        while clients and time.monotonic() < until:
            self._check_alive(set(living))
            clients = {node: client for node, client in clients.items() if not _has_nodes(client, set(living))}
            time.sleep(0.05 if clients else 0)
        if clients:
            raise BrokerUnreachable(
                f"the brokers at {self.bootstrap} were not ready after {READY_SECONDS} s",
                fix=f"see {self.brokers[0].log}",
            )

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _check_alive(self, expected: set[int]) -> None:
        for broker in self.brokers:
            if broker.node in expected and not broker.alive:
                raise BrokerRefused(
                    f"Kafka node {broker.node} exited while starting: {_last_error(broker.log)}", where=str(broker.log)
                )

    def _format(self, folder: Path) -> None:
        """Write each node's settings, and format the storage of new nodes."""
        make_private(folder)
        name = folder / "cluster.id"
        if not name.exists():
            name.write_text(urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: self._format_node(broker, name.read_text()), self.brokers))

    def _format_node(self, broker: Broker, cluster_id: str) -> None:
        make_private(broker.folder)
        (broker.folder / "log4j2.properties").write_text(LOG4J)
        lines = (f"{name}={value}\n" for name, value in broker.properties(self.brokers).items())
        (broker.folder / "server.properties").write_text("".join(lines))
        if (broker.folder / "data" / "meta.properties").exists():
            return
        # With "=", because an id may begin with a dash and be taken for an option.
        arguments = ["format", f"--cluster-id={cluster_id}", "-c", str(broker.folder / "server.properties")]
        done = subprocess.run(
            self._command(broker, "kafka.tools.StorageTool", arguments), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BrokerRefused(
                f"Kafka's storage cannot be prepared: {done.stderr.strip()[-500:]}", where=str(broker.folder)
            )

    def _launch(self, broker: Broker) -> None:
        command = self._command(broker, "kafka.Kafka", [str(broker.folder / "server.properties")])
        broker.process = _starter.submit(_start, command, broker.log).result()

    def _command(self, broker: Broker, main: str, arguments: Sequence[str]) -> list[str]:
        options = ["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
        logging = f"-Dlog4j2.configurationFile={broker.folder / 'log4j2.properties'}"
        return [str(self._java), *options, logging, "-cp", self._classpath, main, *arguments]


def free_ports(count: int, used: Sequence[int] = ()) -> list[int]:
    """Free ports of the loopback interface."""
    sockets: list[socket.socket] = []
    ports: list[int] = []
    while len(ports) < count:
        sockets.append(socket.create_server((HOST, 0)))  # stay open until all are found, so that they differ
        port = sockets[-1].getsockname()[1]
        if port not in used:
            ports.append(port)
    for one in sockets:
        one.close()
    return ports


def _check_free(port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise PortInUse(
            f"port {port} is in use",
            fix="stop the process that uses it, or choose another port, for example --port 19092",
        ) from error


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    launcher = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid()), *command]
    command = launcher if sys.platform == "linux" else command
    with log.open("ab") as out:
        # A session of its own: Ctrl-C goes to this process only, which then stops the brokers in order.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def _has_nodes(client: AdminClient, nodes: set[int]) -> bool:
    from confluent_kafka import KafkaException

    try:
        return nodes <= set(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return False  # still starting


def _end(broker: Broker, with_signal: signal.Signals | None, patience: float) -> None:
    if broker.process is None:
        return
    if with_signal is not None and broker.alive:
        broker.process.send_signal(with_signal)
    try:
        broker.process.wait(patience)
    except subprocess.TimeoutExpired:
        broker.process.kill()
        broker.process.wait()


def _last_error(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " / ".join(line for line in lines if "ERROR" in line or "Exception" in line)[-500:] or "it left no message"
