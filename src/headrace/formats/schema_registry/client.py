"""Client of a schema registry over HTTP: headrace's own, or any other with the usual API.

Immutable facts are requested once: the schema of an id, and the id of a registered schema. An unreachable registry
raises `RegistryUnreachable`, which is worth a retry; any other response of a registry is an error of the request.
"""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import quote, urlsplit

from headrace.errors import (
    BadRecord,
    BadSchema,
    HeadraceError,
    IncompatibleSchema,
    RegistryReadOnly,
    RegistryRefused,
    RegistryUnreachable,
    UnknownSchema,
    UnknownSubject,
    UnknownVersion,
)
from headrace.formats.schema_registry.state import KINDS, Kind, Version

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_MOST_ANSWER = 16 << 20
_CACHE_SIZE = 10_000
_ERRORS: dict[int, type[HeadraceError]] = {
    40401: UnknownSubject,
    40402: UnknownVersion,
    40403: UnknownSchema,
    409: IncompatibleSchema,
    42201: BadSchema,
    42205: RegistryReadOnly,
}


class HttpRegistry:
    """See `registry.Registry`. The address is http(s)://HOST:PORT, optionally with a path."""

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError("write the registry's address as in http://127.0.0.1:8081")
        self.address = address.rstrip("/")
        self._secure = parts.scheme == "https"
        self._place = (parts.hostname, parts.port or (443 if self._secure else 80))
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        self._lock = threading.Lock()
        self._schemas: dict[int, tuple[str, Kind]] = {}
        self._ids: dict[tuple[str, str, Kind], int] = {}

    # -- the registry -----------------------------------------------------------------------------------------------

    def register(self, subject: str, text: str, kind: Kind) -> int:
        cached = self._ids.get((subject, text, kind))
        if cached is not None:
            return cached
        answer = self._request("POST", f"/subjects/{_quoted(subject)}/versions", {"schema": text, "schemaType": kind})
        schema_id = _field(answer, "id", int)
        self._cache(self._ids, (subject, text, kind), schema_id)
        return schema_id

    def schema(self, schema_id: int) -> tuple[str, Kind]:
        cached = self._schemas.get(schema_id)
        if cached is not None:
            return cached
        answer = self._request("GET", f"/schemas/ids/{schema_id}")
        if answer.get("references"):
            raise BadRecord(
                f"the schema with the id {schema_id} has references, which are not supported",
                fix="register it as a single schema",
            )
        schema = (_field(answer, "schema", str), _kind(answer))
        self._cache(self._schemas, schema_id, schema)
        return schema

    def latest(self, subject: str) -> Version:
        return self._version(subject, "latest")

    def versions(self, subject: str) -> list[Version]:
        numbers = _list(self._request("GET", f"/subjects/{_quoted(subject)}/versions"), int)
        return [self._version(subject, number) for number in numbers]

    def subjects(self) -> list[str]:
        return _list(self._request("GET", "/subjects"), str)

    def _version(self, subject: str, number: int | str) -> Version:
        answer = self._request("GET", f"/subjects/{_quoted(subject)}/versions/{number}")
        version, schema_id = (_field(answer, name, int) for name in ("version", "id"))
        return Version(subject, version, schema_id, _field(answer, "schema", str), _kind(answer))

    def _cache(self, values: dict[Any, Any], key: Any, value: Any) -> None:
        with self._lock:
            if len(values) >= _CACHE_SIZE:  # ids come from payloads, which are untrusted
                values.clear()
            values[key] = value

    # -- HTTP -------------------------------------------------------------------------------------------------------

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self._exchange(method, path, body)
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            value = None
        if status == 200 and value is not None:
            return value
        raise self._error(status, value if isinstance(value, dict) else {})

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection  # slow to import, and rarely used

        # A connection per request: responses are cached, so requests are rare, and threads share nothing.
        connect = HTTPSConnection if self._secure else HTTPConnection
        connection = connect(*self._place, timeout=self._timeout)
        try:
            headers = {"Content-Type": CONTENT_TYPE, "Accept": f"{CONTENT_TYPE}, application/json"}
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self._path + path, data, headers)
            response = connection.getresponse()
            return response.status, response.read(_MOST_ANSWER)
        except (OSError, HTTPException) as error:
            raise RegistryUnreachable(
                f"the schema registry does not respond: {error}",
                where=self.address,
                fix="start it with `headrace schema up`, or correct the address",
            ) from error
        finally:
            connection.close()

    def _error(self, status: int, answer: dict[str, Any]) -> HeadraceError:
        message = str(answer.get("message") or f"status {status}")[:1000]
        if status >= 500 or status == 429:
            return RegistryUnreachable(
                f"the schema registry cannot serve the request now: {message}", where=self.address
            )
        kind = _ERRORS.get(answer.get("error_code", status), RegistryRefused)
        return kind(
            f"the schema registry refused the request: {message}",
            where=self.address,
            fix="correct the request, or the schema",
        )


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _field(answer: Any, name: str, kind: type) -> Any:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, kind):
        raise RegistryRefused(
            f'the response of the schema registry has no "{name}"',
            fix="check that the address is that of a schema registry",
        )
    return value


def _kind(answer: dict[str, Any]) -> Kind:
    """The type is absent for AVRO, which predates the others."""
    kind = answer.get("schemaType", "AVRO")
    if kind not in KINDS:
        raise RegistryRefused(
            f'the schema registry returned a schema of the unsupported type "{kind}"', fix=f"use {', '.join(KINDS)}"
        )
    return kind


def _list(answer: Any, kind: type) -> list[Any]:
    if not isinstance(answer, list) or not all(isinstance(item, kind) for item in answer):
        raise RegistryRefused(
            "the response of the schema registry is not a list",
            fix="check that the address is that of a schema registry",
        )
    return answer
