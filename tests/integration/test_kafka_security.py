"""SASL and TLS: `kafka.client_options` reach every client, and a refusal is reported as such."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.contracts import Append, Subscription
from headrace.errors import BrokerRefused
from headrace.log.kafka import KafkaLog, jars
from headrace.log.kafka.local_cluster import Listener, LocalCluster, free_ports
from headrace.record import Record
from headrace.settings import Settings
from tests.contract.rows_and_records import polled, values

PASSWORD = "wonder,land"  # a comma, as in real ones
STORE_PASSWORD = "of-the-key-store"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
PLAIN = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": JAAS}
SASL = f"sasl.mechanisms=PLAIN,sasl.username=alice,sasl.password={PASSWORD}"


class Secured(NamedTuple):
    """A cluster with a listener for each way in, and the authority that signed its certificate."""

    listeners: dict[str, Listener]
    authority: Path

    def settings(self, way: str, options: str) -> Settings:
        options = f"security.protocol={way},{options}".rstrip(",").replace("AUTHORITY", str(self.authority))
        return Settings.of(
            storage_log="kafka", kafka_bootstrap_servers=self.listeners[way].address, kafka_client_options=options
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    jars.fetch(Settings())
    folder = tmp_path_factory.mktemp("secured")
    store, authority = certificate(folder)
    tls = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": store, "ssl.keystore.password": STORE_PASSWORD}
    ways = {"SASL_PLAINTEXT": PLAIN, "SSL": tls, "SASL_SSL": {**PLAIN, **tls}}
    ports = free_ports(len(ways))
    listeners = {
        way: Listener(way.replace("_", ""), way, port, settings)
        for port, (way, settings) in zip(ports, ways.items(), strict=True)
    }
    with LocalCluster.start(folder / "kafka", listeners=list(listeners.values())):
        yield Secured(listeners, authority)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A key with a certificate for 127.0.0.1, and the certificate alone, by the tool that comes with Java."""
    store, alone = folder / "broker.p12", folder / "authority.pem"
    keystore = ["-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker"]
    made = [
        "-genkeypair",
        "-keyalg",
        "RSA",
        "-storetype",
        "PKCS12",
        "-dname",
        "CN=127.0.0.1",
        "-ext",
        "SAN=ip:127.0.0.1",
    ]
    for command in ([*made, *keystore], ["-exportcert", "-rfc", "-file", str(alone), *keystore]):
        subprocess.run(["keytool", *command], check=True, capture_output=True)
    return store, alone


RIGHT = {
    "SASL_PLAINTEXT": SASL,
    "SSL": "ssl.ca.location=AUTHORITY",
    "SASL_SSL": f"{SASL},ssl.ca.location=AUTHORITY",
}


@pytest.mark.kafka
@pytest.mark.parametrize("way", RIGHT)
def test_every_client_authenticates(secured: Secured, name: str, way: str) -> None:
    with KafkaLog(secured.settings(way, RIGHT[way])) as log:
        log.create_topic(name)
        log.append([Append(name, [Record(b"single")])])
        log.append([Append(name, [Record(b"in a"), Record(b"transaction")])])
        log.writer(name).append(1, [Append(name, [Record(b"by a writer")])])
        producer = log.producer()
        producer.send(name, Record(b"sent")).result(30)
        producer.close()
        expected = [b"single", b"in a", b"transaction", b"by a writer", b"sent"]
        assert values(log, name) == expected
        consumer = log.consumer(name, Subscription((name,)))
        assert polled(consumer, len(expected)) == expected
        consumer.commit()
        assert sum(log.group(name).lag.values()) == 0


WRONG = {
    "a wrong password": ("SASL_PLAINTEXT", "sasl.mechanisms=PLAIN,sasl.username=alice,sasl.password=guess"),
    "an unknown authority": ("SSL", ""),
    "a wrong password under TLS": (
        "SASL_SSL",
        "ssl.ca.location=AUTHORITY,sasl.mechanisms=PLAIN,sasl.username=eve,sasl.password=guess",
    ),
}


@pytest.mark.kafka
@pytest.mark.parametrize("case", WRONG)
def test_a_client_without_rights_gets_an_error(secured: Secured, name: str, case: str) -> None:
    with (
        KafkaLog(secured.settings(*WRONG[case])) as log,
        pytest.raises(BrokerRefused, match="denies access") as refused,
    ):
        log.create_topic(name)
    assert "kafka.client_options" in (refused.value.fix or "")
    assert "guess" not in str(refused.value)
