"""Plans CREATE ALERT as a query (source, key, the rule's input, the rule, notices), and plans notifiers and muting."""

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
    suggestion,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import cast_to
from headrace.lang.ksql.analyzer.further_errors import with_further_errors
from headrace.lang.ksql.analyzer.scope import parts_of, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.lang.ksql.query.partial_plan import PartialPlan, known_source, source_plan
from headrace.lang.ksql.query.select import check_key_type
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.alerts import (
    ALERTS_STREAM,
    MIN_DAYS,
    RULE_INPUT,
    RULE_OUTPUT,
    SEVERITIES,
    AbsenceTest,
    Alert,
    AlertRule,
    ChangeTest,
    ConditionTest,
    DeviationTest,
    NullMeaning,
    alert_operator,
)
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Process, Query, Rekey, Select, Sink
from headrace.plan.notifiers import Notifier, notifier
from headrace.plan.relations import Kind, Relation, WindowKind
from headrace.plan.sources import SourceInfo
from headrace.schema import Field

_DEFAULT_HISTORY = timedelta(days=14)
_ORDER = (e.Compare.LESS, e.Compare.LESS_OR_EQUAL, e.Compare.GREATER, e.Compare.GREATER_OR_EQUAL)


def plan_alert(statement: ast.CreateAlert, catalog: Catalog, text: str) -> Query:
    """Returns the query that runs the rule, with its alert."""
    flow = _source(statement, catalog)
    try:
        per = _per(flow, statement, catalog)
        rule, watched = _rule(statement, flow, catalog)
        message = _message(statement, flow, catalog)
    except StatementError as error:
        raise with_further_errors(error, _as_query(statement), flow.scope, catalog.types) from None
    alert = Alert(statement.name, flow.infos[0].name, rule, _severity(statement), _notified(statement, catalog))
    query = f"ALERT_{alert.name}_{catalog.number}"
    columns = tuple(e.NamedExpression(field.name, x) for field, x in zip(RULE_INPUT, (*watched, message), strict=True))
    below = _keyed(flow, columns, per)
    process = Process(
        below, replace(below.relation, value=RULE_OUTPUT), alert_operator(alert, query, _nulls(flow.infos[0]))
    )
    return Query(query, _sink(process, alert, query), text, alert=alert)


def _sink(process: Process, alert: Alert, query: str) -> Sink:
    """Adds the columns of a notice: the rule's output, and the constants of the alert."""
    relation = Relation(Kind.STREAM, ALERTS_STREAM.relation.key, RULE_OUTPUT)
    target = Rekey(process, relation, tuple(e.NamedExpression(f.name, e.Column(f.type, f.name)) for f in relation.key))
    notify = e.MakeArray(t.array(t.STRING), tuple(e.Literal(t.STRING, name) for name in alert.notify))
    expressions: dict[str, e.Expression] = {
        "ALERT": e.Literal(t.STRING, alert.name),
        "QUERY": e.Literal(t.STRING, query),
        "SEVERITY": e.Literal(t.STRING, alert.severity),
        "AT": e.Column(t.BIGINT, e.ROWTIME),
        "NOTIFY": notify,
    }
    fields = ALERTS_STREAM.relation.value
    values = tuple(e.NamedExpression(f.name, expressions.get(f.name) or e.Column(f.type, f.name)) for f in fields)
    node = Select(target, ALERTS_STREAM.relation, values)
    return Sink(
        node,
        ALERTS_STREAM.relation,
        ALERTS_STREAM.name,
        ALERTS_STREAM.topic,
        ALERTS_STREAM.key_format,
        ALERTS_STREAM.value_format,
    )


# -- input of the rule ----------------------------------------------------------------------------------------------


def _source(statement: ast.CreateAlert, catalog: Catalog) -> PartialPlan:
    """Plans the source. A table's changes are read as a stream: each is the new row of a key, or None."""
    ref = statement.source
    info = known_source(catalog, ref.name, ref)
    if ref.as_of is not None:
        raise BadAlert("an alert does not support FOR SYSTEM_TIME", span=ref.as_of.span, fix="remove FOR SYSTEM_TIME")
    used = {part.name for part in parts_of(statement) if isinstance(part, ast.Name)}
    changes = replace(info, relation=replace(info.relation, kind=Kind.STREAM))
    return replace(source_plan(changes, ref.alias or ref.name, used), infos=(info,))


def _nulls(info: SourceInfo) -> NullMeaning:
    """Returns what a null means. A session that grows is deleted and written again: its deletion means nothing."""
    if info.kind is Kind.STREAM:
        return NullMeaning.ARRIVED
    window = info.relation.window
    return NullMeaning.IGNORED if window is not None and window.kind is WindowKind.SESSION else NullMeaning.DELETED


def _per(flow: PartialPlan, statement: ast.CreateAlert, catalog: Catalog) -> tuple[e.NamedExpression, ...]:
    """Returns the expressions of PER; without a key and without PER all rows have one key."""
    if statement.per and flow.infos[0].kind is Kind.TABLE:
        raise BadKey(
            f"an alert on a table always uses its key, and {flow.infos[0].name} is a table",
            span=statement.per[0].span,
            fix="remove PER, or create a table with another key",
        )
    key_expressions = statement.per or (() if flow.relation.key else (ast.StringLiteral(""),))
    typer = Typer(flow.scope, "PER", catalog.types)
    typed = [typer.typed(qualify(one, flow.scope, "PER")) for one in key_expressions]
    for one, expression in zip(key_expressions, typed, strict=True):
        check_key_type(expression.type, one, expression_text(one))
    return tuple(e.NamedExpression(f"$key{i}", expression) for i, expression in enumerate(typed))


def _keyed(
    flow: PartialPlan, columns: tuple[e.NamedExpression, ...], per: tuple[e.NamedExpression, ...]
) -> Select | Rekey:
    """Keys the columns by PER, or by the source's key without its window."""
    fields = tuple(Field(named.name, named.type) for named in (*columns, *per))
    below = Select(flow.node, replace(flow.relation, value=fields), (*columns, *per))
    if not per and flow.relation.window is None:
        return below
    key = tuple(Field(named.name, named.type) for named in per) or flow.relation.key
    keys = tuple(e.NamedExpression(field.name, e.Column(field.type, field.name)) for field in key)
    return Rekey(below, Relation(Kind.STREAM, key, fields), keys)


def _rule(
    statement: ast.CreateAlert, flow: PartialPlan, catalog: Catalog
) -> tuple[AlertRule, tuple[e.Expression, e.Expression]]:
    """Returns the rule and its input: whether the row says that it holds, and the value."""
    lasting, when = statement.lasting or timedelta(0), statement.when
    typer = Typer(flow.scope, "WHEN", catalog.types)
    unsaid = e.Literal(t.BOOLEAN, None)
    if when is None:
        if not lasting:
            raise BadAlert(
                "ABSENT requires a duration", span=statement.span, fix="write ABSENT FOR 10 MINUTES, for example"
            )
        return AlertRule(AbsenceTest(), lasting), (unsaid, e.Literal(t.DOUBLE, None))
    if isinstance(when, ast.ChangeOf):
        value, test = _change(when)
        return AlertRule(test, lasting, statement.each), (unsaid, _number(typer, value))
    if isinstance(when, ast.DeviationOf):
        test = _deviation(when)
        return AlertRule(test, lasting, statement.each), (unsaid, _number(typer, when.value))
    _check_no_change(when)
    holds = typer.condition(qualify(when, flow.scope, "WHEN"))
    return AlertRule(ConditionTest(), lasting, statement.each), (holds, _watched_value(when, flow, typer))


def _change(when: ast.ChangeOf) -> tuple[ast.Expr, ChangeTest]:
    match when.comparison:
        case ast.Comparison(op=op, left=ast.Call(name="CHANGE", arguments=(value,)), right=bound) if (
            op in _ORDER and (by := _constant(bound)) is not None
        ):
            if not when.within:
                raise BadAlert(
                    "WITHIN requires a duration greater than zero",
                    span=when.span,
                    fix="write WITHIN 1 HOUR, for example",
                )
            return value, ChangeTest(e.Compare(op), by, when.percent, when.within)
    raise BadAlert(
        "WITHIN is valid only for CHANGE compared with a number",
        span=when.span,
        fix="write CHANGE(n) < -50 PERCENT WITHIN 1 HOUR, for example",
    )


def _check_no_change(when: ast.Expr) -> None:
    for part in parts_of(when):
        if isinstance(part, ast.Call) and part.name == "CHANGE":
            raise BadAlert(
                "CHANGE requires WITHIN and a comparison with a number",
                span=part.span,
                fix="write CHANGE(n) < -50 PERCENT WITHIN 1 HOUR, for example",
            )


def _deviation(when: ast.DeviationOf) -> DeviationTest:
    by, over = _constant(when.by), when.over or _DEFAULT_HISTORY
    if not by or by < 0:
        raise BadAlert(
            "DEVIATES BY requires a number greater than zero", span=when.by.span, fix="write DEVIATES BY 3, for example"
        )
    if over < timedelta(days=MIN_DAYS):
        raise BadAlert(
            f"at least {MIN_DAYS} days are required for DEVIATES", span=when.span, fix="write OVER 14 DAYS, for example"
        )
    return DeviationTest(by, over)


def _constant(node: ast.Expr) -> float | None:
    if isinstance(node, ast.IntegerLiteral | ast.DecimalLiteral | ast.DoubleLiteral):
        return float(node.value)
    return None


def _number(typer: Typer, node: ast.Expr) -> e.Expression:
    value = typer.typed(qualify(node, typer.scope, "WHEN"))
    if not t.is_number(value.type):
        raise TypeMismatch(f"{expression_text(node)} is a {type_text(value.type)}, expected a number", span=node.span)
    return cast_to(value, t.DOUBLE)


def _watched_value(when: ast.Expr, flow: PartialPlan, typer: Typer) -> e.Expression:
    """Returns the non-constant side of the first comparison with a number."""
    for part in parts_of(when):
        sides = (part.left, part.right) if isinstance(part, ast.Comparison) else ()
        for side in (side for side in sides if any(isinstance(one, ast.Name) for one in parts_of(side))):
            value = typer.typed(qualify(side, flow.scope, "WHEN"))
            if t.is_number(value.type):
                return cast_to(value, t.DOUBLE)
    return e.Literal(t.DOUBLE, None)


# -- output of the rule ---------------------------------------------------------------------------------------------


def _message(statement: ast.CreateAlert, flow: PartialPlan, catalog: Catalog) -> e.Expression:
    if statement.message is None:
        return e.Literal(t.STRING, None)
    value = Typer(flow.scope, "MESSAGE", catalog.types).typed(qualify(statement.message, flow.scope, "MESSAGE"))
    if t.is_nested(value.type) or value.type == t.BYTES:
        raise TypeMismatch(
            f"MESSAGE is a {type_text(value.type)}, expected STRING",
            span=statement.message.span,
            fix="build a string, for example with CAST or CONCAT",
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
    """Puts the alert's expressions into a query, to check them for further errors."""
    when = statement.when
    condition = when.value if isinstance(when, ast.DeviationOf) else None if isinstance(when, ast.ChangeOf) else when
    select_items = (ast.SelectItem(statement.message),) if statement.message is not None else ()
    return ast.Query(select_items, statement.source, where=condition, partition_by=statement.per)


# -- existing alerts and notifiers ----------------------------------------------------------------------------------


def check_new(statement: ast.CreateAlert, catalog: Catalog) -> bool:
    """Returns whether no alert of that name exists; raises if one exists and must not."""
    if statement.name not in catalog.alerts:
        return True
    if statement.if_not_exists:
        return False
    raise AlertExists(
        f"alert {statement.name} already exists", span=statement.span, fix=f"DROP ALERT {statement.name} first"
    )


def known_alert(name: str, catalog: Catalog, node: ast.Ast) -> Query:
    if name not in catalog.alerts:
        known = ", ".join(sorted(catalog.alerts)) or "none"
        fix = suggestion(name, catalog.alerts, f"alerts are: {known}")
        raise UnknownAlert(f"alert {name} does not exist", span=node.span_of(name), fix=fix)
    return catalog.alerts[name]


def known_notifier(name: str, catalog: Catalog, node: ast.Ast) -> Notifier:
    if name not in catalog.notifiers:
        known = ", ".join(sorted(catalog.notifiers)) or "none"
        fix = suggestion(name, catalog.notifiers, f"notifiers are: {known}")
        raise UnknownNotifier(f"notifier {name} does not exist", span=node.span_of(name), fix=fix)
    return catalog.notifiers[name]


def plan_notifier(statement: ast.CreateNotifier, catalog: Catalog) -> Notifier | None:
    """Plans a notifier; None if it exists and may."""
    if statement.name in catalog.notifiers:
        if statement.if_not_exists:
            return None
        raise NotifierExists(
            f"notifier {statement.name} already exists",
            span=statement.span,
            fix=f"DROP NOTIFIER {statement.name} first",
        )
    try:
        return notifier(statement.name, statement.kind.lower(), {p.name.lower(): p.value for p in statement.properties})
    except (BadOption, UnknownComponent) as error:
        named = (p.span for p in statement.properties if f'"{p.name.lower()}"' in error.what)
        raise BadProperty(error.what, span=next(named, statement.span), fix=error.fix) from error


def check_notifier_unused(name: str, catalog: Catalog, node: ast.Ast) -> None:
    users = [alert for alert, query in catalog.alerts.items() if query.alert and name in query.alert.notify]
    if users:
        raise NotifierInUse(
            f"alerts use notifier {name}: {', '.join(sorted(users))}", span=node.span, fix="DROP them first"
        )
