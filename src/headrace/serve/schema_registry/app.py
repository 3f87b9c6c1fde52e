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

    def has_flag(self, name: str) -> bool:
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


def _version_document(version: Version) -> dict[str, Any]:
    document = {"subject": version.subject, "version": version.number, "id": version.id}
    return {**document, **_kind_of(version.kind), "schema": version.text}


def _kind_of(kind: Kind) -> dict[str, str]:
    """The type field of a response; left out for AVRO, the registry's default."""
    return {} if kind == "AVRO" else {"schemaType": kind}


def subjects(request: RegistryRequest) -> Any:
    names = request.registry.subjects(deleted=request.has_flag("deleted") or request.has_flag("deletedOnly"))
    if request.has_flag("deletedOnly"):
        names = sorted({*names} - {*request.registry.subjects()})
    return [name for name in names if name.startswith(request.query.get("subjectPrefix", ""))]


def lookup_schema(request: RegistryRequest) -> Any:
    return _version_document(
        request.registry.find(request.subject, *request.schema(), deleted=request.has_flag("deleted"))
    )


def delete_subject(request: RegistryRequest) -> Any:
    return request.registry.delete_subject(request.subject, permanent=request.has_flag("permanent"))


def versions(request: RegistryRequest) -> Any:
    shows_all = request.has_flag("deleted") or request.has_flag("deletedOnly")
    all_versions = request.registry.versions(request.subject, deleted=shows_all)
    return [version.number for version in all_versions if version.deleted or not request.has_flag("deletedOnly")]


def register(request: RegistryRequest) -> Any:
    if request.body.get("id", -1) not in (-1, None) or request.body.get("version", -1) not in (-1, None, 0):
        raise BadMode("the registry assigns ids and versions", fix='remove "id" and "version"')
    return {"id": request.registry.register(request.subject, *request.schema())}


def version(request: RegistryRequest) -> Any:
    return _version_document(
        request.registry.version(request.subject, request.version, deleted=request.has_flag("deleted"))
    )


def version_text(request: RegistryRequest) -> Any:
    return _as_value(
        request.registry.version(request.subject, request.version, deleted=request.has_flag("deleted")).text
    )


def list_referrers(request: RegistryRequest) -> Any:
    request.registry.version(request.subject, request.version)
    return []  # references are refused, so there are none


def delete_version(request: RegistryRequest) -> Any:
    return request.registry.delete_version(request.subject, request.version, permanent=request.has_flag("permanent"))


def schema(request: RegistryRequest) -> Any:
    text, kind = request.registry.schema(request.id)
    return {**_kind_of(kind), "schema": text}


def schema_text(request: RegistryRequest) -> Any:
    return _as_value(request.registry.schema(request.id)[0])


def _as_value(text: str) -> Any:
    """A schema as a JSON value: parsed if it is JSON, otherwise its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def subjects_of_id(request: RegistryRequest) -> Any:
    return sorted({use.subject for use in request.registry.uses(request.id, deleted=request.has_flag("deleted"))})


def versions_of_id(request: RegistryRequest) -> Any:
    uses = request.registry.uses(request.id, deleted=request.has_flag("deleted"))
    return [{"subject": use.subject, "version": use.number} for use in uses]


# -- compatibility and configuration --------------------------------------------------------------------------------


def check_compatibility(request: RegistryRequest) -> Any:
    version = request.version if "version" in request.path else None
    problems = request.registry.problems(request.subject, *request.schema(), version)
    return {"is_compatible": not problems, **({"messages": problems} if request.has_flag("verbose") else {})}


def get_compatibility(request: RegistryRequest) -> Any:
    or_default = request.subject == REGISTRY or request.has_flag("defaultToGlobal")
    return {"compatibilityLevel": request.registry.level(request.subject, or_default=or_default)}


def set_compatibility(request: RegistryRequest) -> Any:
    level = request.body.get("compatibility")
    if not isinstance(level, str) or {*request.body} - {"compatibility"}:
        raise BadCompatibility('the body must be {"compatibility": LEVEL}', fix="remove everything else")
    request.registry.set_level(level.upper(), request.subject)
    return {"compatibility": level.upper()}


def clear_compatibility(request: RegistryRequest) -> Any:
    return {"compatibilityLevel": request.registry.clear_level(request.subject)}


def mode(request: RegistryRequest) -> Any:
    or_default = request.subject == REGISTRY or request.has_flag("defaultToGlobal")
    return {"mode": request.registry.mode(request.subject, or_default=or_default)}


def set_mode(request: RegistryRequest) -> Any:
    mode = str(request.body.get("mode")).upper()
    request.registry.set_mode(mode, request.subject)
    return {"mode": mode}


def clear_mode(request: RegistryRequest) -> Any:
    return {"mode": request.registry.clear_mode(request.subject)}


Handle = Callable[[RegistryRequest], Any]
ROUTES: Mapping[str, Mapping[str, Handle]] = {
    "/": {"GET": lambda request: {}},
    "/subjects": {"GET": subjects},
    "/subjects/{subject}": {"POST": lookup_schema, "DELETE": delete_subject},
    "/subjects/{subject}/versions": {"GET": versions, "POST": register},
    "/subjects/{subject}/versions/{version}": {"GET": version, "DELETE": delete_version},
    "/subjects/{subject}/versions/{version}/schema": {"GET": version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": list_referrers},
    "/schemas/types": {"GET": lambda request: list(KINDS)},
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
        parsed = RegistryRequest(registry, named, request.query_params, body)
        handle = handles["GET" if request.method == "HEAD" else request.method]
        try:
            return _response(200, await run_in_threadpool(handle, parsed))
        except HeadraceError as error:
            return _error_response(error_code(error, codes), error_message(error))

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


def _error_response(code: int, message: str) -> Response:
    return _response(http_status(code), {"error_code": code, "message": message})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error_response(error.status_code, error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    return _error_response(50001, "the registry failed; its log file says why")
