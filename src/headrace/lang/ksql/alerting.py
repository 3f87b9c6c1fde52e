"""CREATE ALERT becomes a query: source, key, what the rule looks at, the rule, notices. And notifiers, and muting."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.errors import (
    AlertExists,
    BadAlert,
    BadKey,
    BadOption,
    BadProperty,
    NotifierExists,
    NotifierInUse,
    StatementError,
    TypeMismatch,
    UnknownAlert,
    UnknownComponent,
    UnknownNotifier,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.coercion import cast_to
from headrace.lang.ksql.faults import with_others
from headrace.lang.ksql.flow import Flow, known, source_flow
from headrace.lang.ksql.queries import check_key_type
from headrace.lang.ksql.scope import parts_of, qualified
from headrace.lang.ksql.text import expression_text, type_text
from headrace.lang.ksql.typer import Typer
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.alerts import (
    LEAST_DAYS,
    NOTICES,
    SAID,
    SEVERITIES,
    WATCHED,
    Absence,
    Alert,
    Change,
    Condition,
    Deviation,
    Nulls,
    Rule,
    watching,
)
from headrace.plan.catalog import Catalog, SourceInfo
from headrace.plan.nodes import Kind, Operate, Query, Rekey, Relation, Select, Sink, WindowKind
from headrace.plan.notifiers import Notifier, notifier
from headrace.schema import Field

_OVER = timedelta(days=14)
_ORDER = (e.Compare.LESS, e.Compare.LESS_OR_EQUAL, e.Compare.GREATER, e.Compare.GREATER_OR_EQUAL)


def alerted(statement: ast.CreateAlert, catalog: Catalog, text: str) -> Query:
    """The query that runs the rule, and knows its alert."""
    flow = _source(statement, catalog)
    try:
        per = _per(flow, statement, catalog)
        rule, watched = _rule(statement, flow, catalog)
        message = _message(statement, flow, catalog)
    except StatementError as error:
        raise with_others(error, _as_query(statement), flow.scope, catalog.types) from None
    alert = Alert(statement.name, flow.infos[0].name, rule, _severity(statement), _notified(statement, catalog))
    query = f"ALERT_{alert.name}_{catalog.number}"
    columns = tuple(e.Named(field.name, x) for field, x in zip(WATCHED, (*watched, message), strict=True))
    below = _keyed(flow, columns, per)
    said = Operate(below, replace(below.relation, value=SAID), watching(alert, query, _nulls(flow.infos[0])))
    return Query(query, _sink(said, alert, query), text, alert=alert)


def _sink(said: Operate, alert: Alert, query: str) -> Sink:
    """The notice's columns: what the rule says, and what is the same for all of the alert."""
    relation = Relation(Kind.STREAM, NOTICES.relation.key, SAID)
    target = Rekey(said, relation, tuple(e.Named(f.name, e.Column(f.type, f.name)) for f in relation.key))
    notify = e.MakeArray(t.array(t.STRING), tuple(e.Literal(t.STRING, name) for name in alert.notify))
    told: dict[str, e.Expression] = {
        "ALERT": e.Literal(t.STRING, alert.name),
        "QUERY": e.Literal(t.STRING, query),
        "SEVERITY": e.Literal(t.STRING, alert.severity),
        "AT": e.Column(t.BIGINT, e.ROWTIME),
        "NOTIFY": notify,
    }
    fields = NOTICES.relation.value
    values = tuple(e.Named(f.name, told.get(f.name) or e.Column(f.type, f.name)) for f in fields)
    node = Select(target, NOTICES.relation, values)
    return Sink(node, NOTICES.relation, NOTICES.name, NOTICES.topic, NOTICES.key_format, NOTICES.value_format)


# -- what it looks at -----------------------------------------------------------------------------------------------


def _source(statement: ast.CreateAlert, catalog: Catalog) -> Flow:
    """The changes of a table are a stream: each is the row that a key has from then on, or None."""
    ref = statement.source
    info = known(catalog, ref.name, ref)
    if ref.as_of is not None:
        raise BadAlert("an alert looks at rows as they come", span=ref.as_of.span, fix="leave out FOR SYSTEM_TIME")
    used = {part.name for part in parts_of(statement) if isinstance(part, ast.Name)}
    changes = replace(info, relation=replace(info.relation, kind=Kind.STREAM))
    return replace(source_flow(changes, ref.alias or ref.name, used), infos=(info,))


def _nulls(info: SourceInfo) -> Nulls:
    """A session that goes on is deleted and written anew: its deletion says nothing of the key."""
    if info.kind is Kind.STREAM:
        return Nulls.CAME
    window = info.relation.window
    return Nulls.NONE if window is not None and window.kind is WindowKind.SESSION else Nulls.GONE


def _per(flow: Flow, statement: ast.CreateAlert, catalog: Catalog) -> tuple[e.Named, ...]:
    """What is written behind PER; without a key and without PER all rows belong together."""
    if statement.per and flow.infos[0].kind is Kind.TABLE:
        raise BadKey(
            f"an alert on a table is by its key, and {flow.infos[0].name} is a table",
            span=statement.per[0].span,
            fix="leave out PER, or make a table with another key",
        )
    written = statement.per or (() if flow.relation.key else (ast.StringLiteral(""),))
    typer = Typer(flow.scope, "PER", catalog.types)
    typed = [typer.typed(qualified(one, flow.scope, "PER")) for one in written]
    for one, expression in zip(written, typed, strict=True):
        check_key_type(expression.type, one, expression_text(one))
    return tuple(e.Named(f"$key{i}", expression) for i, expression in enumerate(typed))


def _keyed(flow: Flow, columns: tuple[e.Named, ...], per: tuple[e.Named, ...]) -> Select | Rekey:
    """The columns, under what the alert is by: PER, or the source's key, of which a window is no part."""
    fields = tuple(Field(named.name, named.type) for named in (*columns, *per))
    below = Select(flow.node, replace(flow.relation, value=fields), (*columns, *per))
    if not per and flow.relation.window is None:
        return below
    key = tuple(Field(named.name, named.type) for named in per) or flow.relation.key
    keys = tuple(e.Named(field.name, e.Column(field.type, field.name)) for field in key)
    return Rekey(below, Relation(Kind.STREAM, key, fields), keys)


def _rule(statement: ast.CreateAlert, flow: Flow, catalog: Catalog) -> tuple[Rule, tuple[e.Expression, e.Expression]]:
    """The rule, and what it looks at: whether the row says that it holds, and the value."""
    lasting, when = statement.lasting or timedelta(0), statement.when
    typer = Typer(flow.scope, "WHEN", catalog.types)
    unsaid = e.Literal(t.BOOLEAN, None)
    if when is None:
        if not lasting:
            raise BadAlert("ABSENT needs a time", span=statement.span, fix="write ABSENT FOR 10 MINUTES, for example")
        return Rule(Absence(), lasting), (unsaid, e.Literal(t.DOUBLE, None))
    if isinstance(when, ast.ChangeOf):
        value, test = _change(when)
        return Rule(test, lasting, statement.each), (unsaid, _number(typer, value))
    if isinstance(when, ast.DeviationOf):
        test = _deviation(when)
        return Rule(test, lasting, statement.each), (unsaid, _number(typer, when.value))
    _check_no_change(when)
    holds = typer.condition(qualified(when, flow.scope, "WHEN"))
    return Rule(Condition(), lasting, statement.each), (holds, _watched_value(when, flow, typer))


def _change(when: ast.ChangeOf) -> tuple[ast.Expr, Change]:
    match when.comparison:
        case ast.Comparison(op=op, left=ast.Call(name="CHANGE", arguments=(value,)), right=bound) if (
            op in _ORDER and (by := _constant(bound)) is not None
        ):
            if not when.within:
                raise BadAlert("a change needs some time", span=when.span, fix="write WITHIN 1 HOUR, for example")
            return value, Change(e.Compare(op), by, when.percent, when.within)
    raise BadAlert(
        "WITHIN belongs to a change that is compared with a number",
        span=when.span,
        fix="write CHANGE(n) < -50 PERCENT WITHIN 1 HOUR, for example",
    )


def _check_no_change(when: ast.Expr) -> None:
    for part in parts_of(when):
        if isinstance(part, ast.Call) and part.name == "CHANGE":
            raise BadAlert(
                "CHANGE needs a time to look back, and is compared with a number",
                span=part.span,
                fix="write CHANGE(n) < -50 PERCENT WITHIN 1 HOUR, for example",
            )


def _deviation(when: ast.DeviationOf) -> Deviation:
    by, over = _constant(when.by), when.over or _OVER
    if not by or by < 0:
        raise BadAlert("a deviation is above zero", span=when.by.span, fix="write DEVIATES BY 3, for example")
    if over < timedelta(days=LEAST_DAYS):
        raise BadAlert(
            f"at least {LEAST_DAYS} days are needed to know what an hour is like", span=when.span, fix="OVER 14 DAYS"
        )
    return Deviation(by, over)


def _constant(node: ast.Expr) -> float | None:
    if isinstance(node, ast.IntegerLiteral | ast.DecimalLiteral | ast.DoubleLiteral):
        return float(node.value)
    return None


def _number(typer: Typer, node: ast.Expr) -> e.Expression:
    value = typer.typed(qualified(node, typer.scope, "WHEN"))
    if not t.is_number(value.type):
        raise TypeMismatch(
            f"{expression_text(node)} is a {type_text(value.type)}, and a number is needed", span=node.span
        )
    return cast_to(value, t.DOUBLE)


def _watched_value(when: ast.Expr, flow: Flow, typer: Typer) -> e.Expression:
    """Of the first comparison with a number that is no constant: what it compares."""
    for part in parts_of(when):
        sides = (part.left, part.right) if isinstance(part, ast.Comparison) else ()
        for side in (side for side in sides if any(isinstance(one, ast.Name) for one in parts_of(side))):
            value = typer.typed(qualified(side, flow.scope, "WHEN"))
            if t.is_number(value.type):
                return cast_to(value, t.DOUBLE)
    return e.Literal(t.DOUBLE, None)


# -- what it says ---------------------------------------------------------------------------------------------------


def _message(statement: ast.CreateAlert, flow: Flow, catalog: Catalog) -> e.Expression:
    if statement.message is None:
        return e.Literal(t.STRING, None)
    value = Typer(flow.scope, "MESSAGE", catalog.types).typed(qualified(statement.message, flow.scope, "MESSAGE"))
    if t.is_nested(value.type) or value.type == t.BYTES:
        raise TypeMismatch(
            f"MESSAGE is a {type_text(value.type)}, and a text is needed",
            span=statement.message.span,
            fix="name the parts that it should show",
        )
    return cast_to(value, t.STRING)


def _severity(statement: ast.CreateAlert) -> str:
    if statement.severity is None:
        return "warning"
    if (severity := statement.severity.value.lower()) not in SEVERITIES:
        raise BadAlert(
            f"SEVERITY cannot be '{statement.severity.value}'",
            span=statement.severity.span,
            fix=f"write one of {', '.join(map(repr, SEVERITIES))}",
        )
    return severity


def _notified(statement: ast.CreateAlert, catalog: Catalog) -> tuple[str, ...]:
    return tuple(dict.fromkeys(known_notifier(ref.name, catalog, ref).name for ref in statement.notify))


def _as_query(statement: ast.CreateAlert) -> ast.Query:
    """Its expressions where those of a query stand, to be looked through for further faults."""
    when = statement.when
    looked = when.value if isinstance(when, ast.DeviationOf) else None if isinstance(when, ast.ChangeOf) else when
    shown = (ast.SelectItem(statement.message),) if statement.message is not None else ()
    return ast.Query(shown, statement.source, where=looked, partition_by=statement.per)


# -- what is there --------------------------------------------------------------------------------------------------


def check_new(statement: ast.CreateAlert, catalog: Catalog) -> bool:
    """Whether there is none of that name; if one must not be, that is refused."""
    if statement.name not in catalog.alerts:
        return True
    if statement.if_not_exists:
        return False
    raise AlertExists(
        f"alert {statement.name} exists already", span=statement.span, fix=f"DROP ALERT {statement.name} first"
    )


def known_alert(name: str, catalog: Catalog, node: ast.Ast) -> Query:
    if name not in catalog.alerts:
        there = ", ".join(sorted(catalog.alerts)) or "none"
        raise UnknownAlert(f"there is no alert {name}", span=node.span, fix=f"alerts are: {there}")
    return catalog.alerts[name]


def known_notifier(name: str, catalog: Catalog, node: ast.Ast) -> Notifier:
    if name not in catalog.notifiers:
        there = ", ".join(sorted(catalog.notifiers)) or "none"
        raise UnknownNotifier(f"there is no notifier {name}", span=node.span, fix=f"notifiers are: {there}")
    return catalog.notifiers[name]


def declared_notifier(statement: ast.CreateNotifier, catalog: Catalog) -> Notifier | None:
    """None if it is there already, and may be."""
    if statement.name in catalog.notifiers:
        if statement.if_not_exists:
            return None
        raise NotifierExists(f"notifier {statement.name} exists already", span=statement.span, fix="DROP it first")
    try:
        return notifier(statement.name, statement.kind.lower(), {p.name.lower(): p.value for p in statement.properties})
    except (BadOption, UnknownComponent) as error:
        named = (p.span for p in statement.properties if f'"{p.name.lower()}"' in error.what)
        raise BadProperty(error.what, span=next(named, statement.span), fix=error.fix) from error


def check_notifier_unused(name: str, catalog: Catalog, node: ast.Ast) -> None:
    users = [alert for alert, query in catalog.alerts.items() if query.alert and name in query.alert.notify]
    if users:
        raise NotifierInUse(
            f"alerts are sent by notifier {name}: {', '.join(sorted(users))}", span=node.span, fix="DROP them first"
        )
