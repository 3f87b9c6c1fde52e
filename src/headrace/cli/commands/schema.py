"""`headrace schema`: serve, list and register schemas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.errors import BadSchema, IncompatibleSchema

if TYPE_CHECKING:
    from headrace.formats.schema_registry.state import Kind, Version
    from headrace.formats.schema_registry.store import StoredRegistry

app = typer.Typer(no_args_is_help=True)
Subject = Annotated[str, typer.Argument(help="Subject: TOPIC-value or TOPIC-key.")]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help='Schema file: .avsc, .proto or .json; "-" is standard input.')
]
KindOption = Annotated[
    str | None, typer.Option("--kind", help="AVRO, PROTOBUF or JSON. Default: by the file extension.")
]
_ENDINGS = {".avsc": "AVRO", ".avro": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


@app.command()
def up(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free port.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Serve a schema registry over HTTP, until Ctrl-C.

    Example: headrace schema up --port 8081
    """
    from headrace.serve import require_libraries

    require_libraries()
    from headrace.serve.http.bind import check_plain_bind
    from headrace.serve.http.server import Server, dedicate_process
    from headrace.serve.schema_registry.app import registry_app

    call: CommandContext = ctx.obj
    with call.log(create=True, long=True) as log:
        check_plain_bind(host)
        server = Server(registry_app(_registry(log)), host, port)
        server.stop_on_signals()
        output.note(f"the schema registry listens on {server.address}; Ctrl-C stops it")
        dedicate_process()
        server.run()


@app.command("list")
def list_schemas(
    ctx: typer.Context,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include deleted schemas that can be restored.")] = False,
    as_json: output.Json = False,
) -> None:
    """List the subjects with their latest version.

    Example: headrace schema list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        registry = _registry(log)
        rows = [_row(registry, subject, deleted) for subject in registry.subjects(deleted=deleted)]
    columns = ("subject", "kind", "versions", "latest", "id", "compatibility")
    output.print_rows(rows, as_json=call.json, columns=columns, empty="there are no schemas")


@app.command()
def show(
    ctx: typer.Context,
    subject: Subject,
    version: Annotated[str, typer.Option(help='Version number, or "latest".')] = "latest",
    as_json: output.Json = False,
) -> None:
    """Print a schema.

    Example: headrace schema show orders-value --version 1
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        schema_version = _registry(log).version(subject, int(version) if version.isdigit() else version)
    if call.json:
        output.print_json(_version_document(schema_version))
    else:
        sys.stdout.write(schema_version.text.rstrip("\n") + "\n")


@app.command()
def register(ctx: typer.Context, subject: Subject, file: File, kind: KindOption = None) -> None:
    """Register a schema, and print its id.

    A schema that the subject already has is not registered again.

    Example: headrace schema register orders-value order.avsc
    """
    call: CommandContext = ctx.obj
    text, schema_kind = _read(file, kind)
    with call.log(create=True) as log:
        registry = _registry(log)
        schema_id = registry.register(subject, text, schema_kind)
        version = registry.find(subject, text, schema_kind)
    if call.json:
        output.print_json(_version_document(version))
    else:
        output.note(f'the schema is version {version.number} of subject "{subject}"')
        sys.stdout.write(f"{schema_id}\n")


@app.command()
def check(ctx: typer.Context, subject: Subject, file: File, kind: KindOption = None) -> None:
    """Check whether a schema can be registered.

    Example: headrace schema check orders-value order.avsc
    """
    call: CommandContext = ctx.obj
    text, schema_kind = _read(file, kind)
    with call.log() as log:
        registry = _registry(log)
        problems, level = registry.problems(subject, text, schema_kind), registry.level(subject)
    if problems:
        raise IncompatibleSchema(
            f'the schema is not compatible with subject "{subject}" ({level}): {"; ".join(problems)}',
            where=str(file),
            fix="give new fields a default and keep the types",
        )
    output.note(f'the schema is compatible with subject "{subject}" ({level})')


def _registry(log: Any) -> StoredRegistry:
    from headrace.log.schema_registry import LogRegistry

    return LogRegistry(log)


def _read(file: Path, kind: str | None) -> tuple[str, Kind]:
    schema_kind: Any = (kind or _ENDINGS.get(file.suffix.lower(), "")).upper()
    if not schema_kind:
        raise typer.BadParameter("choose the format with --kind: AVRO, PROTOBUF or JSON")
    try:
        return (sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")), schema_kind
    except (OSError, UnicodeDecodeError) as error:
        raise BadSchema(f"cannot read the schema: {error}", where=str(file), fix="name a text file") from error


def _row(registry: StoredRegistry, subject: str, deleted: bool) -> dict[str, Any]:
    versions = registry.versions(subject, deleted=deleted)
    last = versions[-1]
    row = {"subject": subject, "kind": last.kind, "versions": len(versions), "latest": last.number, "id": last.id}
    return {**row, "compatibility": registry.level(subject), "deleted": last.deleted}


def _version_document(version: Version) -> dict[str, Any]:
    document = {"subject": version.subject, "version": version.number, "id": version.id}
    return {**document, "kind": version.kind, "schema": version.text}
