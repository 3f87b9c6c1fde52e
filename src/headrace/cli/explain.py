"""`headrace explain`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import output, scripts
from headrace.cli.call import Call
from headrace.errors import UnknownTopic
from headrace.lang.ksql.script import Planned
from headrace.plan import catalog
from headrace.plan.explain import graph, relation_text, tree
from headrace.plan.nodes import Query

if TYPE_CHECKING:
    from headrace.contracts import Topic
    from headrace.engine.outlook import Outlook

app = typer.Typer()


@app.command()
def explain(
    ctx: typer.Context,
    file: scripts.Script,
    as_graph: Annotated[bool, typer.Option("--graph", help="Print graphs in the language of Graphviz.")] = False,
    as_json: output.Json = False,
) -> None:
    """Show what the statements of a KSQL script do, and the plan of each query from its result down to its sources.

    Of each query it is told how it will run on Spark, and why, by the settings and by the topics of the embedded log;
    for topics that are not there, by those that `headrace run` would make.

    With --graph only the queries are printed, one graph after the other, as `dot` reads them.

    Example: headrace explain pageviews.ksql

    Example: headrace explain pageviews.ksql --graph | dot -Tsvg > plan.svg
    """
    call: Call = ctx.obj
    call.json |= as_json
    found = scripts.checked(file)
    scripts.refuse(found, as_json=call.json)
    told = list(zip(found.planned, _outlooks(call, found.planned), strict=True))
    if call.json:
        output.print_json([_document(planned, outlook, as_graph) for planned, outlook in told])
        return
    show = _graph if as_graph else _text
    typer.echo("\n\n".join(part for part in (show(planned, outlook) for planned, outlook in told) if part))


def _text(planned: Planned, outlook: Outlook | None) -> str:
    plan = _query(planned)
    runs = [f"--   {line}" for line in outlook.lines()] if outlook else []
    lines = [f"-- {planned.where}: {does(planned)}", *runs, *(tree(plan).splitlines() if plan else ())]
    return "\n".join(lines)


def _graph(planned: Planned, outlook: Outlook | None) -> str:
    plan = _query(planned)
    runs = "".join(f"//   {line}\n" for line in outlook.lines()) if outlook else ""
    return f"// {planned.where}: {plan.id}\n{runs}{graph(plan)}" if plan else ""


def _document(planned: Planned, outlook: Outlook | None, as_graph: bool) -> dict[str, Any]:
    plan = _query(planned)
    shown = (graph if as_graph else tree)(plan) if plan else None
    runs = outlook and outlook.as_dict()
    return {"where": planned.where, "does": does(planned), "query": plan and plan.id, "runs": runs, "plan": shown}


def _query(planned: Planned) -> Query | None:
    return getattr(planned.action, "query", None)


# -- how it will run ------------------------------------------------------------------------------------------------


def _running(planned: Planned, rest: Sequence[Planned]) -> Query | None:
    """The query that the statement would let run; a SELECT only answers. Above an ASSERT it sends every change."""
    query = _query(planned) if isinstance(planned.action, catalog.Create | catalog.Insert) else None
    asserted = any(isinstance(below.action, catalog.Expect) for below in rest)
    return replace(query, every_change=True) if query and asserted else query


def _outlooks(call: Call, planned: Sequence[Planned]) -> list[Outlook | None]:
    """How each statement's query will run, if it has one. What that takes is slow to load."""
    queries = [_running(one, planned[place:]) for place, one in enumerate(planned)]
    if not any(queries):
        return [None] * len(queries)
    from headrace.control.prospect import Prospect

    with _topics(call) as find:
        prospect = Prospect(call.settings(), find)
        return [query and prospect.look(query) for query in queries]


@contextlib.contextmanager
def _topics(call: Call) -> Iterator[Callable[[str], Topic | None]]:
    """Those of the embedded log, if there is one. Kafka is not asked: nothing of what is told hangs on it."""
    settings = call.settings()
    if settings.log != "embedded" or not (settings.data / "log.db").exists():
        yield lambda name: None
        return
    from headrace.log.embedded.view import LogView

    view = LogView(settings.data)

    def find(name: str) -> Topic | None:
        with contextlib.suppress(UnknownTopic):
            return view.topic(name)
        return None

    try:
        yield find
    finally:
        view.close()


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
    catalog.Insert: lambda a: (
        f"watch {a.query.alert.source} for alert {a.query.alert.name} by query {a.query.id}"
        if a.query.alert
        else f"fill {a.query.sink.name} also by query {a.query.id}"
    ),
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
