"""`headrace explain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from headrace.cli import output, scripts
from headrace.cli.call import Call
from headrace.lang.ksql.script import Planned
from headrace.plan import catalog
from headrace.plan.explain import graph, relation_text, tree
from headrace.plan.nodes import Query

app = typer.Typer()


@app.command()
def explain(
    ctx: typer.Context,
    file: scripts.Script,
    as_graph: Annotated[bool, typer.Option("--graph", help="Print graphs in the language of Graphviz.")] = False,
    as_json: output.Json = False,
) -> None:
    """Show what the statements of a KSQL script do, and the plan of each query from its result down to its sources.

    With --graph only the queries are printed, one graph after the other, as `dot` reads them.

    Example: headrace explain pageviews.ksql

    Example: headrace explain pageviews.ksql --graph | dot -Tsvg > plan.svg
    """
    call: Call = ctx.obj
    call.json |= as_json
    found = scripts.checked(file)
    scripts.refuse(found, as_json=call.json)
    if call.json:
        output.print_json([_document(planned, as_graph) for planned in found.planned])
        return
    parts = [_graph(planned) if as_graph else _text(planned) for planned in found.planned]
    typer.echo("\n\n".join(part for part in parts if part))


def _text(planned: Planned) -> str:
    plan = _query(planned)
    lines = [f"-- {planned.where}: {does(planned)}", *(tree(plan).splitlines() if plan else ())]
    return "\n".join(lines)


def _graph(planned: Planned) -> str:
    plan = _query(planned)
    return f"// {planned.where}: {plan.id}\n{graph(plan)}" if plan else ""


def _document(planned: Planned, as_graph: bool) -> dict[str, Any]:
    plan = _query(planned)
    shown = (graph if as_graph else tree)(plan) if plan else None
    return {"where": planned.where, "does": does(planned), "query": plan and plan.id, "plan": shown}


def _query(planned: Planned) -> Query | None:
    return getattr(planned.action, "query", None)


# -- what a statement does ------------------------------------------------------------------------------------------


def does(planned: Planned) -> str:
    """In words."""
    return _WORDS[type(planned.action)](planned.action)


def _created(action: catalog.Create) -> str:
    source = action.source
    place = f'over topic "{source.topic}" ({source.value_format.name})'
    if action.query is None:
        columns = relation_text(source.relation).removeprefix(f"{source.kind} ")
        return f"declare {source.kind} {source.name} {columns} {place}"
    instead = f" instead of {action.replaces}" if action.replaces else ""
    return f"create {source.kind} {source.name} {place}, filled by query {action.query.id}{instead}"


def _done(action: catalog.Done) -> str:
    name = type(action.statement).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


_WORDS: Mapping[type, Callable[[Any], str]] = {
    catalog.Create: _created,
    catalog.Insert: lambda a: f"fill {a.query.sink.name} also by query {a.query.id}",
    catalog.Write: lambda a: f"write a row to {a.source.name}",
    catalog.Delete: lambda a: f"delete rows of {a.source.name}",
    catalog.Drop: lambda a: f"drop {a.source.kind} {a.source.name}" + (" and its topic" if a.delete_topic else ""),
    catalog.Ask: lambda a: "answer with every change" if a.push else "answer from what is there",
    catalog.Control: lambda a: f"{a.verb.lower()} {', '.join(a.queries) or 'no query'}",
    catalog.Answer: lambda a: f"answer what is asked about {f'{a.about} {a.name}'.strip()}",
    catalog.Expect: lambda a: f"expect a record of {a.source.name}",
    catalog.ExpectSource: lambda a: f"expect a {a.expected.kind} {a.name}",
    catalog.Done: _done,
}
