"""Every setting, declared once with type, default and doc, in the section of the settings file that it belongs to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, get_type_hints

from headrace.errors import BadSetting
from headrace.settings.values import Size


def setting(
    default: Any, doc: str, *, secret: bool = False, least: int | None = None, choices: tuple[str, ...] = ()
) -> Any:
    """A setting; `least` is the minimum of a number, `choices` are all values that a text may have."""
    return field(default=default, metadata={"doc": doc, "secret": secret, "least": least, "choices": choices})


@dataclass(frozen=True)
class StorageSettings:
    """The data folder and the embedded log."""

    data: Path = setting(Path("headrace-data"), "Folder of the embedded log, checkpoints and log files.")
    log: str = setting("embedded", "Which log to use: embedded or kafka.", choices=("embedded", "kafka"))
    linger: timedelta = setting(
        timedelta(0), "How long a producer waits for more records before it commits, so that they share one commit."
    )
    inline_bytes: Size = setting(
        Size(128 << 10), "Appends up to this size are stored in the commit log, larger ones in files."
    )
    extent_file_bytes: Size = setting(Size(64 << 20), "Extent files are merged until they reach this size.")
    maintenance_interval: timedelta = setting(
        timedelta(seconds=30), "How often merging, retention and compaction run; 0 turns them off."
    )
    file_delete_delay: timedelta = setting(
        timedelta(minutes=10),
        "How long extent files that were merged or compacted are kept, for readers that still use them.",
    )
    lock_timeout: timedelta = setting(timedelta(seconds=30), "How long to wait for the log's write lock.")
    group_session_timeout: timedelta = setting(
        timedelta(seconds=10),
        "A consumer that sends no heartbeat for this long is removed from its group.",
    )


@dataclass(frozen=True)
class KafkaSettings:
    """The connection to Kafka, if it is the log."""

    bootstrap_servers: str = setting("127.0.0.1:9092", "Kafka's bootstrap servers: host:port, separated by commas.")
    client_options: str = setting(
        "", "Options of Kafka's clients, such as SASL and TLS: key=value, separated by commas.", secret=True
    )
    jars: Path = setting(Path("~/.cache/headrace/jars"), "Cache folder of the Kafka jars.")


@dataclass(frozen=True)
class SparkSettings:
    """Spark's process."""

    master: str = setting("local[2]", "Spark master URL.")
    driver_memory: Size = setting(Size(2 << 30), "Heap of the Spark driver.")
    warm_start: bool = setting(
        True,
        "Start Spark with the server, and let it compute a small query, so that the first query starts within seconds; "
        "Spark's memory is used from then on. Without effect if query.isolation is process.",
    )
    class_archives: Path = setting(
        Path("~/.cache/headrace/classes"),
        "Cache folder of archives of Spark's Java classes, 180 MB each, with which Spark starts faster. The first "
        "server that starts warm makes one.",
    )
    shuffle_partitions: int = setting(2, "Partitions after a shuffle; a few are enough on one machine.", least=1)


@dataclass(frozen=True)
class QuerySettings:
    """How queries run, and the limits of pull and push queries."""

    execution_mode: str = setting(
        "auto",
        "How queries run on Spark: record (record by record), native (Spark's own operators; a query that they cannot "
        "compute with the same results is refused), auto (native where possible, record otherwise; a query that has "
        "started keeps its mode) or realtime (latency of milliseconds, from Kafka to Kafka, at least once, for queries "
        "that process each record independently; others are refused).",
        choices=("auto", "record", "native", "realtime"),
    )
    emit: str = setting(
        "per-batch",
        "Which changes of a table a query emits: per-batch (the last change of each key in a micro-batch) or "
        "per-record (every change).",
        choices=("per-batch", "per-record"),
    )
    sink_topics: str = setting(
        "raw",
        "How topics that queries create store their records: raw (bytes in the formats of the statement, for any "
        "reader) or typed (columns with a schema, which other queries read and write fastest). Embedded log only.",
        choices=("raw", "typed"),
    )
    key_groups: int = setting(
        4,
        "Number of key groups into which a query in record mode divides its keys; fixed when the query first starts.",
        least=1,
    )
    suspend_after: timedelta = setting(
        timedelta(minutes=5),
        "A query of a server without input for this long leaves Spark, and resumes with the next input; 0: never.",
    )
    stop_timeout: timedelta = setting(
        timedelta(seconds=30),
        "A stopped query has this long to finish its batch. Then the batch is ended by force, and repeated when "
        "the query starts again.",
    )
    max_batch_rows: int = setting(1_000_000, "Maximum number of rows in one micro-batch.", least=1)
    on_failing_record: str = setting(
        "dead-letter",
        "What becomes of a record at which a query fails every time, for example because it ends its Python process: "
        "dead-letter (the query continues without it) or stop (the query fails and waits for RESUME).",
        choices=("dead-letter", "stop"),
    )
    isolation: str = setting(
        "shared",
        "Where queries run: shared (all in one process with one Spark) or process (each in its own process with its "
        "own Spark and memory, so that one that crashes does not affect the others).",
        choices=("shared", "process"),
    )
    realtime_checkpoint_interval: timedelta = setting(
        timedelta(minutes=1),
        "How often a realtime query writes a checkpoint; at least 5s. It pauses for about 0.2 s each time. After a "
        "crash, the records since the last checkpoint are processed again; a stop waits for the next checkpoint.",
    )
    pull_timeout: timedelta = setting(timedelta(minutes=1), "How long a pull query may take; 0: no limit.")
    pull_max_rows: int = setting(1_000_000, "How many rows a pull query may return; 0: no limit.", least=0)
    pull_max_bytes: Size = setting(
        Size(256 << 20),
        "How large the result of a pull query may be, what its functions may create for 1,000 rows, and what it may "
        "store for ORDER BY and GROUP BY; 0: no limit.",
    )
    pull_workers: int = setting(
        2,
        "How many processes execute heavy pull queries, which are no key lookups or call functions that can grow their "
        "input; 0: the server itself does.",
        least=0,
    )
    pull_max_memory: Size = setting(
        Size(512 << 20), "How much memory a heavy pull query may take in its process; 0: no limit."
    )
    pull_max_cpu: timedelta = setting(
        timedelta(seconds=30), "How much processor time a heavy pull query may take; 0: no limit."
    )
    max_push_queries: int = setting(
        1_000,
        "How many push queries (EMIT CHANGES, PRINT) may run at the same time; one user may have as many as stay free "
        "for the others. 0: no limit.",
        least=0,
    )


@dataclass(frozen=True)
class ServerSettings:
    """The HTTP server."""

    host: str = setting(
        "127.0.0.1",
        "Address to listen on. An address that other machines can reach requires TLS, authentication and an admin.",
    )
    accept_code: bool = setting(
        True,
        "Whether the server accepts Python code to run, from admins and from clients with the data folder's secret.",
    )
    tls_cert: str = setting("", "PEM file with the server's certificate and its intermediates; enables TLS.")
    tls_key: str = setting("", "PEM file with the certificate's private key.")
    trusted_proxies: str = setting(
        "",
        "Addresses and networks of proxies, separated by commas. Their headers X-Forwarded-For and X-Forwarded-Proto "
        "count, those of others never do. Clients behind a proxy must authenticate.",
    )
    max_connections: int = setting(800, "How many connections may be open at the same time; 0: no limit.", least=0)
    max_connections_per_address: int = setting(
        400,
        "How many connections one client may have open; an IPv6 /64 is one client. 0: no limit.",
        least=0,
    )
    max_new_connections_per_address: int = setting(
        100,
        "How many connections one client may open a second, on average over five seconds; an IPv6 /64 is one client. "
        "Clients on this machine and trusted proxies may open more. 0: no limit.",
        least=0,
    )
    max_statements_running: int = setting(16, "How many requests with statements run at the same time.", least=1)
    max_inserts_running: int = setting(
        32, "How many requests that write records run at the same time; they mostly wait for the disk.", least=1
    )
    max_pulls_running: int = setting(
        0,
        "How many requests that read rows or records run at the same time, and how many heavy pull queries run or wait "
        "for a pull worker; 0: four more than the machine has cores.",
        least=0,
    )
    max_queued: int = setting(
        256,
        "How many requests of each class (statements, inserts, pull queries ...) may wait; one user may have half of "
        "them. More are refused.",
        least=1,
    )
    queue_timeout: timedelta = setting(
        timedelta(seconds=10), "How long a request may wait before the server starts it; then it is refused."
    )


@dataclass(frozen=True)
class QuotaSettings:
    """What one user of a server may use; 0: no quota."""

    requests_per_second: int = setting(0, "Requests of one user a second.")
    bytes_in_per_second: Size = setting(Size(0), "Bytes that one user may send a second.")
    bytes_out_per_second: Size = setting(Size(0), "Bytes that one user may receive a second.")
    rows_per_second: int = setting(0, "Rows and records that one user may read or write a second.")
    queries: int = setting(
        0,
        "Pull queries and other reads that one user may have running and waiting at once; as many heavy pull queries.",
    )
    push_queries: int = setting(0, "Push queries and tails that one user may have at once.")


@dataclass(frozen=True)
class AuthSettings:
    """Authentication of a server's clients."""

    mode: str = setting(
        "local",
        "Which clients must authenticate: local (without credentials, clients on this machine read and write data, and "
        "create and drop things of their own) or required (all clients send a token, a password or a session).",
        choices=("local", "required"),
    )
    token_secret: str = setting(
        "", "Key that signs tokens, at least 32 bytes; by default a file in the data folder.", secret=True
    )
    token_ttl: timedelta = setting(timedelta(hours=12), "How long a token from a login is valid.")
    session_ttl: timedelta = setting(timedelta(hours=12), "How long a browser session is valid.")
    token_jwks: str = setting(
        "", "Keys (JWKS) of an external issuer whose RS256 tokens are accepted: a file or an https address."
    )
    token_issuer: str = setting("", "Issuer that tokens of the external issuer must name.")
    token_audience: str = setting("", "Audience that tokens of the external issuer must name.")


@dataclass(frozen=True)
class ClientSettings:
    """How commands connect to a server."""

    token: str = setting("", "Token that commands send to a server.", secret=True)
    token_file: str = setting("", "File with that token.")
    ca_cert: str = setting(
        "", "PEM file with the CA certificates that commands trust; by default those of the operating system."
    )


@dataclass(frozen=True)
class ViewsSettings:
    """The store of materialized views."""

    backend: str = setting(
        "sqlite",
        "Where materialized views are stored: sqlite (files in the data folder) or postgres.",
        choices=("sqlite", "postgres"),
    )
    postgres_url: str = setting(
        "",
        "PostgreSQL database for views: postgresql://user:password@host:5432/database, with ?sslmode= disable, "
        "prefer, require or verify-full (and sslrootcert=), or ?host= with the folder of a Unix socket.",
        secret=True,
    )


@dataclass(frozen=True)
class NotifiersSettings:
    """Delivery of alerts."""

    smtp_url: str = setting(
        "",
        "Mail server of e-mail notifiers: smtp://user:password@host:587 (STARTTLS; ?tls=none disables it) or "
        "smtps://user:password@host:465; or a reference to it, ${env:NAME} or ${file:PATH}.",
        secret=True,
    )
    smtp_from: str = setting("headrace@localhost", "Sender address of e-mails.")
    webhook_allowed_private: str = setting(
        "",
        "Private addresses that webhooks may reach: host names or networks, separated by commas, such as localhost, "
        "10.1.0.0/16. All other private addresses are refused.",
    )


@dataclass(frozen=True)
class LoggingSettings:
    """The log file."""

    level: str = setting("info", "Lowest level that is written to the log file: debug, info, warning or error.")
    max_file_bytes: Size = setting(Size(10 << 20), "The log file is rotated at this size.")
    max_files: int = setting(5, "How many rotated log files are kept.")


@dataclass(frozen=True)
class Settings:
    """All settings with their values, by section."""

    storage: StorageSettings = field(default_factory=StorageSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    views: ViewsSettings = field(default_factory=ViewsSettings)
    notifiers: NotifiersSettings = field(default_factory=NotifiersSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """The defaults except for these values, named like `spark_master`."""
        return cls().replace(**values)

    def replace(self, **values: Any) -> Self:
        """A copy with these values, named like `spark_master` or `spark.master`."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            spec = find_setting(name)
            if spec is None:
                raise BadSetting(f'setting "{name}" does not exist', fix="name it by its section: spark_master")
            changes.setdefault(spec.section, {})[spec.name] = value
        sections = {
            name: dataclasses.replace(getattr(self, name), **section_values) for name, section_values in changes.items()
        }
        return dataclasses.replace(self, **sections)

    def value(self, setting: SettingSpec) -> Any:
        return getattr(getattr(self, setting.section), setting.name)


@dataclass(frozen=True)
class SettingSpec:
    """The declaration of one setting."""

    section: str
    name: str
    type: type
    default: Any
    doc: str
    secret: bool
    least: int | None
    choices: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its full name, like `spark.master`."""
        return f"{self.section}.{self.name}"

    @property
    def parameter(self) -> str:
        """Its name as a parameter in Python, like `spark_master`."""
        return f"{self.section}_{self.name}"

    @property
    def variable(self) -> str:
        """Its environment variable, like `HEADRACE_SPARK_MASTER`."""
        return f"HEADRACE_{self.parameter.upper()}"


SECTIONS: dict[str, type] = get_type_hints(Settings)


def declared_settings() -> tuple[SettingSpec, ...]:
    """All settings, in the order of their declaration."""
    return tuple(_SETTINGS.values())


def find_setting(name: str) -> SettingSpec | None:
    """The setting of this name, like `spark.master` or `spark_master`."""
    return _SETTINGS.get(name.replace(".", "_", 1))


def _declared(section: str, kind: type) -> list[SettingSpec]:
    types = get_type_hints(kind)
    return [
        SettingSpec(section, item.name, types[item.name], item.default, **item.metadata)
        for item in dataclasses.fields(kind)
    ]


_SETTINGS = {spec.parameter: spec for section, kind in SECTIONS.items() for spec in _declared(section, kind)}
