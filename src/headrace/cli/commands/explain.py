"""`headrace explain`: show the plans of a KSQL script."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params import script
from headrace.errors import UnknownTopic
from headrace.lang.contract import PlannedStatement
from headrace.plan import actions
from headrace.plan.explain import graph, relation_text, tree
from headrace.plan.nodes import Query

if TYPE_CHECKING:
    from headrace.contracts import Topic
    from headrace.engine.planning.mode import ExecutionChoice

app = typer.Typer()


@app.command()
def explain(
    ctx: typer.Context,
    file: script.Script,
    as_graph: Annotated[bool, typer.Option("--graph", help="Print the plans as Graphviz graphs (DOT).")] = False,
    as_json: output.Json = False,
) -> None:
    """Show what a KSQL script does, with its query plans.

    Each plan is shown from the result down to its sources. For each query, the output also says in which execution mode
    it will run on Spark, and why. This depends on the settings and on the topics of the embedded log. For topics that
    do not exist, the topics that `headrace run` would create are assumed.

    With --graph, only the queries are printed, one graph after the other, in the format of `dot`.

    Example: headrace explain pageviews.ksql

    Example: headrace explain pageviews.ksql --graph | dot -Tsvg > plan.svg
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    checked = script.analyze_script(file)
    script.exit_on_errors(checked, as_json=call.json)
    choices = list(zip(checked.planned, _execution_choices(call, checked.planned), strict=True))
    if call.json:
        output.print_json([_document(planned, choice, as_graph) for planned, choice in choices])
        return
    show = _graph if as_graph else _text
    typer.echo("\n\n".join(part for part in (show(planned, choice) for planned, choice in choices) if part))


def _text(planned: PlannedStatement, choice: ExecutionChoice | None) -> str:
    plan = _query(planned)
    runs = [f"--   {line}" for line in choice.lines()] if choice else []
    lines = [f"-- {planned.where}: {describe_action(planned)}", *runs, *(tree(plan).splitlines() if plan else ())]
    return "\n".join(lines)


def _graph(planned: PlannedStatement, choice: ExecutionChoice | None) -> str:
    plan = _query(planned)
    runs = "".join(f"//   {line}\n" for line in choice.lines()) if choice else ""
    return f"// {planned.where}: {plan.id}\n{runs}{graph(plan)}" if plan else ""


def _document(planned: PlannedStatement, choice: ExecutionChoice | None, as_graph: bool) -> dict[str, Any]:
    plan = _query(planned)
    plan_text = (graph if as_graph else tree)(plan) if plan else None
    runs = choice and choice.as_dict()
    return {
        "where": planned.where,
        "does": describe_action(planned),
        "query": plan and plan.id,
        "runs": runs,
        "plan": plan_text,
    }


def _query(planned: PlannedStatement) -> Query | None:
    return getattr(planned.action, "query", None)


# -- execution mode -------------------------------------------------------------------------------------------------


def _running(planned: PlannedStatement, rest: Sequence[PlannedStatement]) -> Query | None:
    """The query that the statement would start; none for a SELECT. With an ASSERT below it, it emits every change."""
    query = _query(planned) if isinstance(planned.action, actions.CreateSource | actions.StartQuery) else None
    asserted = any(isinstance(below.action, actions.ExpectRecord) for below in rest)
    return replace(query, every_change=True) if query and asserted else query


def _execution_choices(call: CommandContext, planned: Sequence[PlannedStatement]) -> list[ExecutionChoice | None]:
    """The execution mode of each statement's query, if it has one. The import is local because it is slow."""
    queries = [_running(one, planned[index:]) for index, one in enumerate(planned)]
    if not any(queries):
        return [None] * len(queries)
    from headrace.control.statements.explain import ExecutionExplainer

    with _topics(call) as find:
        explainer = ExecutionExplainer(call.settings(), find)
        return [query and explainer.explain(query) for query in queries]


@contextlib.contextmanager
def _topics(call: CommandContext) -> Iterator[Callable[[str], Topic | None]]:
    """Look up topics of the embedded log, if there is one. Kafka is not contacted: no output depends on its topics."""
    settings = call.settings()
    if settings.storage.log != "embedded" or not (settings.storage.data / "log.db").exists():
        yield lambda name: None
        return
    from headrace.log.embedded.storage.read_only import ReadOnlyLog

    view = ReadOnlyLog(settings.storage.data)

    def find(name: str) -> Topic | None:
        with contextlib.suppress(UnknownTopic):
            return view.topic(name)
        return None

    try:
        yield find
    finally:
        view.close()


# -- description of a statement -------------------------------------------------------------------------------------


def describe_action(planned: PlannedStatement) -> str:
    """Describe in words what a statement does."""
    return _WORDS.get(type(planned.action), _action_name)(planned.action)


def _describe_source(action: actions.CreateSource) -> str:
    source = action.source
    location = f'over topic "{source.topic}" ({source.value_format.name})'
    if action.query is None:
        columns = relation_text(source.relation).removeprefix(f"{source.kind} ")
        return f"declare {source.kind} {source.name} {columns} {location}"
    replacing = f" instead of {action.replaces}" if action.replaces else ""
    return f"create {source.kind} {source.name} {location}, filled by query {action.query.id}{replacing}"


def _action_name(action: actions.Action) -> str:
    """`CreateType` as `create type`."""
    name = type(action).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


_WORDS: Mapping[type, Callable[[Any], str]] = {
    actions.CreateSource: _describe_source,
    actions.StartQuery: lambda a: (
        f"watch {a.query.alert.source} for alert {a.query.alert.name} by query {a.query.id}"
        if a.query.alert
        else f"fill {a.query.sink.name} also by query {a.query.id}"
    ),
    actions.InsertRow: lambda a: f"write a row to {a.source.name}",
    actions.DeleteRows: lambda a: f"delete rows of {a.source.name}",
    actions.DropSource: lambda a: (
        f"drop {a.source.kind} {a.source.name}" + (" and its topic" if a.delete_topic else "")
    ),
    actions.TransientSelect: lambda a: "push query" if a.push else "pull query",
    actions.ControlQueries: lambda a: f"{a.verb.lower()} {', '.join(a.queries) or 'no query'}",
    actions.MetadataQuery: lambda a: f"list or describe: {f'{a.about} {a.name}'.strip()}",
    actions.ExpectRecord: lambda a: f"expect a record of {a.source.name}",
    actions.ExpectSource: lambda a: f"expect a {a.expected.kind} {a.name}",
    actions.NoChange: lambda a: "change nothing",
}
