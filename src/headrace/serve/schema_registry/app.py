"""The schema registry over HTTP: paths, content types and error codes as registry clients expect them.

Each row of `ROUTES` is one request, handled by a function from the request to a JSON value. Registries block on their
log, so they are called on other threads than the event loop's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import (
    BadCompatibility,
    BadMode,
    BadRequest,
    BadSchema,
    BadVersion,
    BodyTooLarge,
    HeadraceError,
    UnknownSchema,
)
from headrace.formats.schema_registry.client import CONTENT_TYPE
from headrace.formats.schema_registry.state import KINDS, REGISTRY, Kind, Version
from headrace.formats.schema_registry.store import StoredRegistry
from headrace.serve.http.request_body import parse_object, read_body
from headrace.serve.schema_registry.errors import error_code, error_codes, error_message, http_status

MAX_BODY_BYTES = 2 << 20
_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream")


@dataclass(frozen=True)
class RegistryRequest:
    """A request: the names in its path, its query, its body."""

    registry: StoredRegistry
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return self.path.get("subject", REGISTRY)

    @property
    def version(self) -> int | str:
        text = self.path["version"]
        if text in ("latest", "-1"):
            return "latest"
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            raise BadVersion(f'"{text[:40]}" is not a version', fix='use a number of at least 1, or "latest"')
        return int(text)

    @property
    def id(self) -> int:
        text = self.path["id"]
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            raise UnknownSchema(f'"{text[:40]}" is not a schema id')
        return int(text)

    def asks_for(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def schema(self) -> tuple[str, Kind]:
        """The schema in the body. Fields that would have to be ignored are refused."""
        text, kind = self.body.get("schema"), self.body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not text.strip():
            raise BadSchema('the body has no "schema"', fix='send {"schema": "...", "schemaType": "AVRO"}')
        if kind not in KINDS:
            raise BadSchema(f'schema type "{kind}" does not exist', fix=f"use one of {', '.join(KINDS)}")
        for name in ("references", "metadata", "ruleSet"):
            if self.body.get(name):
                raise BadSchema(f'"{name}" is not supported', fix="put everything into one schema")
        return text, kind


# -- schemas and subjects -------------------------------------------------------------------------------------------


def _shown(version: Version) -> dict[str, Any]:
    shown = {"subject": version.subject, "version": version.number, "id": version.id}
    return {**shown, **_kind_of(version.kind), "schema": version.text}


def _kind_of(kind: Kind) -> dict[str, str]:
    """The type field of a response; left out for AVRO, the registry's default."""
    return {} if kind == "AVRO" else {"schemaType": kind}


def subjects(ask: RegistryRequest) -> Any:
    found = ask.registry.subjects(deleted=ask.asks_for("deleted") or ask.asks_for("deletedOnly"))
    if ask.asks_for("deletedOnly"):
        found = sorted({*found} - {*ask.registry.subjects()})
    return [name for name in found if name.startswith(ask.query.get("subjectPrefix", ""))]


def lookup_schema(ask: RegistryRequest) -> Any:
    return _shown(ask.registry.find(ask.subject, *ask.schema(), deleted=ask.asks_for("deleted")))


def delete_subject(ask: RegistryRequest) -> Any:
    return ask.registry.delete_subject(ask.subject, permanent=ask.asks_for("permanent"))


def versions(ask: RegistryRequest) -> Any:
    shows_all = ask.asks_for("deleted") or ask.asks_for("deletedOnly")
    found = ask.registry.versions(ask.subject, deleted=shows_all)
    return [version.number for version in found if version.deleted or not ask.asks_for("deletedOnly")]


def register(ask: RegistryRequest) -> Any:
    if ask.body.get("id", -1) not in (-1, None) or ask.body.get("version", -1) not in (-1, None, 0):
        raise BadMode("the registry assigns ids and versions", fix='remove "id" and "version"')
    return {"id": ask.registry.register(ask.subject, *ask.schema())}


def version(ask: RegistryRequest) -> Any:
    return _shown(ask.registry.version(ask.subject, ask.version, deleted=ask.asks_for("deleted")))


def version_text(ask: RegistryRequest) -> Any:
    return _as_value(ask.registry.version(ask.subject, ask.version, deleted=ask.asks_for("deleted")).text)


def list_referrers(ask: RegistryRequest) -> Any:
    ask.registry.version(ask.subject, ask.version)
    return []  # references are refused, so there are none


def delete_version(ask: RegistryRequest) -> Any:
    return ask.registry.delete_version(ask.subject, ask.version, permanent=ask.asks_for("permanent"))


def schema(ask: RegistryRequest) -> Any:
    text, kind = ask.registry.schema(ask.id)
    return {**_kind_of(kind), "schema": text}


def schema_text(ask: RegistryRequest) -> Any:
    return _as_value(ask.registry.schema(ask.id)[0])


def _as_value(text: str) -> Any:
    """A schema as a JSON value: parsed if it is JSON, otherwise its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def subjects_of_id(ask: RegistryRequest) -> Any:
    return sorted({use.subject for use in ask.registry.uses(ask.id, deleted=ask.asks_for("deleted"))})


def versions_of_id(ask: RegistryRequest) -> Any:
    found = ask.registry.uses(ask.id, deleted=ask.asks_for("deleted"))
    return [{"subject": use.subject, "version": use.number} for use in found]


# -- compatibility and configuration --------------------------------------------------------------------------------


def check_compatibility(ask: RegistryRequest) -> Any:
    version = ask.version if "version" in ask.path else None
    found = ask.registry.problems(ask.subject, *ask.schema(), version)
    return {"is_compatible": not found, **({"messages": found} if ask.asks_for("verbose") else {})}


def get_compatibility(ask: RegistryRequest) -> Any:
    or_default = ask.subject == REGISTRY or ask.asks_for("defaultToGlobal")
    return {"compatibilityLevel": ask.registry.level(ask.subject, or_default=or_default)}


def set_compatibility(ask: RegistryRequest) -> Any:
    wanted = ask.body.get("compatibility")
    if not isinstance(wanted, str) or {*ask.body} - {"compatibility"}:
        raise BadCompatibility('the body must be {"compatibility": LEVEL}', fix="remove everything else")
    ask.registry.set_level(wanted.upper(), ask.subject)
    return {"compatibility": wanted.upper()}


def clear_compatibility(ask: RegistryRequest) -> Any:
    return {"compatibilityLevel": ask.registry.clear_level(ask.subject)}


def mode(ask: RegistryRequest) -> Any:
    or_default = ask.subject == REGISTRY or ask.asks_for("defaultToGlobal")
    return {"mode": ask.registry.mode(ask.subject, or_default=or_default)}


def set_mode(ask: RegistryRequest) -> Any:
    wanted = str(ask.body.get("mode")).upper()
    ask.registry.set_mode(wanted, ask.subject)
    return {"mode": wanted}


def clear_mode(ask: RegistryRequest) -> Any:
    return {"mode": ask.registry.clear_mode(ask.subject)}


Handle = Callable[[RegistryRequest], Any]
ROUTES: Mapping[str, Mapping[str, Handle]] = {
    "/": {"GET": lambda ask: {}},
    "/subjects": {"GET": subjects},
    "/subjects/{subject}": {"POST": lookup_schema, "DELETE": delete_subject},
    "/subjects/{subject}/versions": {"GET": versions, "POST": register},
    "/subjects/{subject}/versions/{version}": {"GET": version, "DELETE": delete_version},
    "/subjects/{subject}/versions/{version}/schema": {"GET": version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": list_referrers},
    "/schemas/types": {"GET": lambda ask: list(KINDS)},
    "/schemas/ids/{id}": {"GET": schema},
    "/schemas/ids/{id}/schema": {"GET": schema_text},
    "/schemas/ids/{id}/subjects": {"GET": subjects_of_id},
    "/schemas/ids/{id}/versions": {"GET": versions_of_id},
    "/compatibility/subjects/{subject}/versions": {"POST": check_compatibility},
    "/compatibility/subjects/{subject}/versions/{version}": {"POST": check_compatibility},
    "/config": {"GET": get_compatibility, "PUT": set_compatibility, "DELETE": clear_compatibility},
    "/config/{subject}": {"GET": get_compatibility, "PUT": set_compatibility, "DELETE": clear_compatibility},
    "/mode": {"GET": mode, "PUT": set_mode, "DELETE": clear_mode},
    "/mode/{subject}": {"GET": mode, "PUT": set_mode, "DELETE": clear_mode},
}


# -- HTTP -----------------------------------------------------------------------------------------------------------


def registry_app(registry: StoredRegistry) -> Any:
    """The application that serves a registry."""
    routes = [
        Route(path, _endpoint(registry, path, handles), methods=list(handles)) for path, handles in ROUTES.items()
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # A subject may contain a quoted slash, so the path is split before it is unquoted.
        raw = {"path": scope["raw_path"].decode("latin-1")} if scope["type"] == "http" else {}
        await inner({**scope, **raw}, receive, send)

    return app


def _endpoint(registry: StoredRegistry, path: str, handles: Mapping[str, Handle]) -> Callable[[Request], Any]:
    codes = error_codes(path)

    async def endpoint(request: Request) -> Response:
        body = await _body(request) if request.method in ("POST", "PUT") else {}
        named = {name: unquote(text) for name, text in request.path_params.items()}
        ask = RegistryRequest(registry, named, request.query_params, body)
        handle = handles["GET" if request.method == "HEAD" else request.method]
        try:
            return _response(200, await run_in_threadpool(handle, ask))
        except HeadraceError as error:
            return _told(error_code(error, codes), error_message(error))

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TYPES:
        raise HTTPException(415, f"send the content type {CONTENT_TYPE}")
    try:
        return parse_object(await read_body(request, MAX_BODY_BYTES))
    except BadRequest as error:
        raise HTTPException(413 if isinstance(error, BodyTooLarge) else 400, error.what) from None


def _response(status: int, value: Any) -> Response:
    return Response(json.dumps(value), status, media_type=CONTENT_TYPE)


def _told(code: int, message: str) -> Response:
    return _response(http_status(code), {"error_code": code, "message": message})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(error.status_code, error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    return _told(50001, "the registry failed; its log file says why")
