"""Settings of a node: from a file, the environment and flags; later ones take precedence.

Each setting is declared once below, with type, default and doc; the reference page is generated from here.
The file is TOML (`headrace.toml` in the working folder, or the file that `HEADRACE_CONFIG` names). The environment
variable of a setting is `HEADRACE_` and its name in capitals.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

from headrace.errors import BadSetting


class Size(int):
    """A number of bytes, written like `64 MB` or `5GiB`."""


def setting(default: Any, doc: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "secret": secret})


@dataclass(frozen=True)
class Settings:
    """All settings with their values."""

    data: Path = setting(Path("headrace-data"), "Folder of the embedded log, checkpoints and log files.")
    log: str = setting("embedded", "Which log to use: embedded or kafka.")
    kafka_servers: str = setting("127.0.0.1:9092", "Kafka's bootstrap servers, host:port separated by commas.")
    kafka_options: str = setting(
        "", "Further client settings as key=value separated by commas; SASL and TLS go here.", secret=True
    )
    jars: Path = setting(Path("~/.cache/headrace/jars"), "Cache folder of the Kafka jars.")
    spark_master: str = setting("local[2]", "Spark master URL.")
    spark_memory: Size = setting(Size(2 << 30), "Memory of the Spark driver.")
    spark_shuffle_partitions: int = setting(2, "Partitions after a shuffle; few are best on one machine.")
    batch_rows: int = setting(1_000_000, "At most this many rows go into one micro-batch (admission control).")
    way: str = setting(
        "auto",
        "How queries run on Spark: record (record by record), native (Spark's own operators; refused where they cannot "
        "give the same), auto (native where that can be, else record; one that has begun goes on as it was) or "
        "realtime (in milliseconds, Kafka to Kafka, each record alone, at least once; refused elsewhere).",
    )
    changes: str = setting(
        "batch",
        "What a table's query sends: batch (of each key the last change in a micro-batch) or record (every change).",
    )
    sink: str = setting(
        "raw",
        "What a topic is that a query makes for its results: raw (bytes in the statement's formats, for any reader) or "
        "typed (columns with a schema, which queries read and write fastest). Embedded log only.",
    )
    pages: int = setting(
        4, "In how many parts a query that works record by record splits its keys; fixed when the query begins."
    )
    isolation: str = setting(
        "shared",
        "Where the queries of a program run: shared (in one process, with one Spark) or process (each in a process of "
        "its own, with a Spark of its own and its memory: one that dies takes no other along).",
    )
    realtime_every: timedelta = setting(
        timedelta(minutes=1),
        "How often a realtime query notes, and tells, how far it is; at least 5s. It pauses for that, for some 0.2 s. "
        "What came since is done again after a crash, and a stop waits for the next note.",
    )
    park_after: timedelta = setting(
        timedelta(minutes=5),
        "A server's query that has had nothing to read for so long leaves Spark until there is something; 0: never.",
    )
    code_from: str = setting(
        "here",
        "From where a server takes Python code to execute: here (programs on the same machine), anywhere or nowhere.",
    )
    host: str = setting(
        "127.0.0.1", "The address that a server listens on; any but this machine's own needs TLS, users and an admin."
    )
    auth: str = setting(
        "local",
        "Who may speak to a server: local (whoever is on this machine is an admin; others are known by what they show) "
        "or required (all must show a token, a password or a session).",
    )
    tls_cert: str = setting("", "File of the server's certificate, and of those above it, in PEM; with it TLS is on.")
    tls_key: str = setting("", "File of the certificate's key, in PEM.")
    token_secret: str = setting(
        "", "What a server signs its tokens with, 32 bytes or more; by default a file in the data folder.", secret=True
    )
    token_life: timedelta = setting(timedelta(hours=12), "How long a token lives that is made by logging in.")
    token_jwks: str = setting("", "Keys of an issuer whose tokens (RS256) count: a file or an https address of a JWKS.")
    token_issuer: str = setting("", "The issuer that such tokens must name.")
    token_audience: str = setting("", "The audience that such tokens must name.")
    session_life: timedelta = setting(timedelta(hours=12), "How long somebody who logged in by browser stays so.")
    token: str = setting("", "The token that commands show to a server.", secret=True)
    token_file: str = setting("", "File of that token.")
    ca: str = setting(
        "", "File of certificates (PEM) by which commands know a server; by default those of the machine."
    )
    views: str = setting(
        "sqlite", "Where tables that can be asked are kept: sqlite (files in the data folder) or postgres."
    )
    views_url: str = setting(
        "",
        "PostgreSQL's database for views: postgresql://user:password@host:5432/database, with ?sslmode= disable, "
        "prefer, require or verify-full (and sslrootcert=), or ?host= the folder of a Unix socket.",
        secret=True,
    )
    query_time: timedelta = setting(
        timedelta(minutes=1),
        "How long a question may take that is answered from what is there; 0: any time.",
    )
    query_rows: int = setting(1_000_000, "How many rows such an answer may have; 0: any number.")
    push_queries: int = setting(1_000, "How many questions may go on at once (EMIT CHANGES, PRINT); 0: any number.")
    connections: int = setting(800, "How many connections a server has at once; 0: any number.")
    connections_each: int = setting(400, "How many of them with one address; 0: any number.")
    smtp: str = setting(
        "",
        "The mail server of e-mail notifiers: smtp://user:password@host:587 (with STARTTLS; ?tls=none is without) or "
        "smtps://user:password@host:465; or a reference to it, ${env:NAME} or ${file:PATH}.",
        secret=True,
    )
    smtp_from: str = setting("headrace@localhost", "The address that e-mails of notifiers come from.")
    webhook_private: str = setting(
        "",
        "Private addresses that webhooks of notifiers may reach, as host names or networks with commas between them: "
        "localhost, 10.1.0.0/16. Others that are not of the internet are refused.",
    )
    linger: timedelta = setting(timedelta(0), "How long a producer waits for company before it commits.")
    inline_bytes: Size = setting(Size(128 << 10), "Appends up to this size are kept inside the commit log.")
    file_bytes: Size = setting(Size(64 << 20), "Merging stops when an extent file has reached this size.")
    upkeep_every: timedelta = setting(
        timedelta(seconds=30), "How often merging, retention and compaction run; 0 switches them off."
    )
    readable_after: timedelta = setting(
        timedelta(minutes=10), "How long an extent that merging or compaction replaced stays readable."
    )
    lock_timeout: timedelta = setting(timedelta(seconds=30), "How long to wait for the log's write lock.")
    group_session: timedelta = setting(timedelta(seconds=10), "A group member silent for this long is dead.")
    log_level: str = setting("info", "Least severe level in the log file: debug, info, warning or error.")
    log_file_bytes: Size = setting(Size(10 << 20), "A log file is rotated at this size.")
    log_file_count: int = setting(5, "How many rotated log files are kept.")


_TYPES: dict[str, type] = get_type_hints(Settings)


@dataclass(frozen=True)
class ResolvedSetting:
    """A setting with its value and where that comes from."""

    name: str
    value: Any
    origin: str
    doc: str
    secret: bool


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Load settings from all layers; the error for an unknown name or a bad value says which layer it is in."""
    return Settings(**{o.name: o.value for o in resolve_settings(flags, environ=environ, file=file)})


def resolve_settings(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> list[ResolvedSetting]:
    """Every setting with its value and its origin, for `headrace doctor` and the console."""
    environ = os.environ if environ is None else environ
    path = file or Path(environ.get("HEADRACE_CONFIG", "headrace.toml"))
    layers: list[tuple[str, Mapping[str, Any]]] = [
        (str(path), _from_file(path, required=file is not None or "HEADRACE_CONFIG" in environ)),
        ("environment", _from_environment(environ)),
        ("flag", {name: value for name, value in (flags or {}).items() if value is not None}),
    ]
    origins: list[ResolvedSetting] = []
    for item in dataclasses.fields(Settings):
        value, origin = item.default, "default"
        for where, layer in layers:
            if item.name in layer:
                value, origin = _value(item.name, layer[item.name], where), where
        if isinstance(value, Path):
            value = value.expanduser()
        origins.append(ResolvedSetting(item.name, value, origin, item.metadata["doc"], item.metadata["secret"]))
    for where, layer in layers:
        for name in layer:
            if name not in _TYPES:
                raise _unknown(name, where)
    return origins


def parse_value(kind: type, text: str) -> Any:
    """Parse a text as a value of the type; raises ValueError."""
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
            raise ValueError("write true or false")
        return text.lower() in ("true", "yes", "on", "1")
    if kind is timedelta:
        return parse_duration(text)
    if kind is Size:
        return parse_size(text)
    return kind(text)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(text: str) -> timedelta:
    """`250ms`, `10s`, `5m`, `2h`, `7d`, `1h30m`; a bare number is seconds."""
    compact = text.replace(" ", "").lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return timedelta(seconds=float(compact))
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|min|[smhdw]))+", compact):
        raise ValueError('write a duration like "250ms", "10s", "5m", "2h" or "7d"')
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|min|[smhdw])", compact)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def parse_size(text: str) -> Size:
    """`1024`, `64 KB`, `10MiB`, `5 GB`; units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)(i?b)?", text.strip().lower())
    if match is None:
        raise ValueError('write a size like "1024", "64 KB" or "5 GB"')
    return Size(float(match.group(1)) * _SIZES[match.group(2) or "b"])


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` parses to the same duration."""
    ms = duration // timedelta(milliseconds=1)
    for unit in ("w", "d", "h", "m", "s"):
        if ms and ms % (_UNITS[unit] * 1000) == 0:
            return f"{int(ms // (_UNITS[unit] * 1000))}{unit}"
    return f"{ms}ms"


def size_text(size: int) -> str:
    """A size for people, like `1.5 MB`."""
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TB"


def _from_file(path: Path, *, required: bool) -> Mapping[str, Any]:
    if not path.is_file():
        if required:
            raise BadSetting(f'settings file "{path}" does not exist', fix="create it, or unset HEADRACE_CONFIG")
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"settings file is not TOML: {error}", where=str(path), fix="mend the line named") from error


# Not settings: these choose the settings file and control tests.
_NOT_SETTINGS = {
    "HEADRACE_CONFIG",
    "HEADRACE_CORPORA",
    "HEADRACE_FAULTPOINT",
    "HEADRACE_HYPOTHESIS",
    "HEADRACE_PICTURES",
    "HEADRACE_TOOLS",
}


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("HEADRACE_").lower(): value
        for name, value in environ.items()
        if name.startswith("HEADRACE_") and name not in _NOT_SETTINGS
    }


def _value(name: str, given: Any, where: str) -> Any:
    if name not in _TYPES:
        raise _unknown(name, where)
    kind = _TYPES[name]
    try:
        if isinstance(given, str):
            return parse_value(kind, given)
        if isinstance(given, bool) != (kind is bool):
            raise ValueError("true and false fit no other type")
        if kind is timedelta and isinstance(given, int | float):
            return timedelta(seconds=given)
        return given if isinstance(given, kind) else kind(given)
    except (TypeError, ValueError) as error:
        raise BadSetting(f'setting "{name}" cannot be {given!r}: {error}', where=where, fix=_doc(name)) from error


def _doc(name: str) -> str:
    return next(item.metadata["doc"] for item in dataclasses.fields(Settings) if item.name == name)


def _unknown(name: str, where: str) -> BadSetting:
    close = difflib.get_close_matches(name, _TYPES, n=1)
    return BadSetting(
        f'there is no setting "{name}"',
        where=where,
        fix=f'did you mean "{close[0]}"?' if close else "`headrace settings` lists them all",
    )
