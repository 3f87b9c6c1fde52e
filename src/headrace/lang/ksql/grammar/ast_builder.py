"""Converts the grammar's tree to the syntax tree of `ast`.

The grammar names its rules after the classes and fields of `ast`, so most of the work is one function, `make_node`.
Only what is represented differently from its syntax has a function here. Queries and statements are in this module,
types and expressions in `expression_builder`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from lark import Transformer_NonRecursive, Tree, v_args
from lark.tree import Meta

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.expression_builder import EXPRESSIONS
from headrace.lang.ksql.grammar.node_factory import NODES, Part, fold_name, make_node, span_of
from headrace.plan.triggers import After, Every, Panes, PerBatch, PerRecord, Results, Trigger

Rule = Callable[[list[Any], Meta], Any]


@v_args(meta=True)
class AstBuilder(Transformer_NonRecursive):
    """Converts a parse tree to a statement or expression, innermost first and without recursion."""

    def __default__(self, data: str, children: list[Any], meta: Meta) -> Any:
        rule = RULES.get(data)
        if rule is not None:
            return rule(children, meta)
        if data in NODES:
            return make_node(NODES[data], children, span_of(meta))
        return Part(str(data), tuple(children), span_of(meta))


def build_ast(tree: Any) -> Any:
    """Returns the statement or expression of a tree; a tree that was inlined is a single token."""
    return AstBuilder().transform(tree) if isinstance(tree, Tree) else tree


# -- queries --------------------------------------------------------------------------------------------------------

CLAUSES = {
    "window": "WINDOW",
    "where": "WHERE",
    "group_by": "GROUP BY",
    "partition_by": "PARTITION BY",
    "having": "HAVING",
    "emit": "EMIT",
    "order_by": "ORDER BY",
    "limit": "LIMIT",
}
"""Clauses in the order in which they must be written."""
MILLISECONDS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


def _query(children: list[Any], meta: Meta) -> ast.Query:
    _check_order([part for part in children if part.field in CLAUSES])
    union = [part.children[0] for part in children if part.field == "union"]
    parts = [part for part in children if part.field != "union"]
    when = [Part("emit_when", part.children[1:]) for part in parts if part.field == "emit" and part.children[1:]]
    return make_node(ast.Query, [*parts, *when, Part("union", tuple(union))], span_of(meta))


def _union(children: list[Any], meta: Meta) -> Part:
    return Part("union", (_query(children, meta),))


def _check_order(clauses: list[Part]) -> None:
    order = list(CLAUSES)
    for first, second in pairwise(clauses):
        words, after = CLAUSES[second.field], CLAUSES[first.field]
        if first.field == second.field:
            raise KsqlSyntaxError(f"{words} appears twice", span=second.span, fix="remove one of them")
        if order.index(first.field) > order.index(second.field):
            raise KsqlSyntaxError(
                f"{words} appears after {after}", span=second.span, fix=f"write {words} before {after}"
            )


def _emit(children: list[Any], meta: Meta) -> Part:
    """Returns the kind and the trigger, if any; a trigger that is the default is None."""
    (clause,) = children
    if clause.field == "final":
        return Part("emit", (ast.Emit.FINAL,), span_of(meta))
    parts = {child.field: child.children for child in clause.children}
    results = Results(parts["results"][0]) if "results" in parts else Results.ACCUMULATING
    trigger = _TRIGGERS[clause.field](parts)
    if (trigger, results) == (PerRecord(), Results.ACCUMULATING):
        return Part("emit", (ast.Emit.CHANGES,), span_of(meta))
    return Part("emit", (ast.Emit.CHANGES, ast.EmitWhen(trigger, results, span=span_of(meta))), span_of(meta))


_TRIGGERS: dict[str, Callable[[dict[str, Any]], Trigger]] = {
    "changes": lambda parts: parts.get("pace", (PerRecord(),))[0],
    "panes": lambda parts: Panes(*(parts.get(pane, (None,))[0] for pane in ("early", "late"))),
}


def _pane(field: str) -> Rule:
    return lambda children, meta: Part(field, children[0].children if children else (PerRecord(),))


def _as_of(children: list[Any], meta: Meta) -> Part:
    return Part("as_of", (make_node(ast.AsOf, children, span_of(meta)),))


def _distinct(children: list[Any], meta: Meta) -> Part:
    return Part("distinct", (make_node(ast.Distinct, children, span_of(meta)),))


def _within(children: list[Any], meta: Meta) -> Part:
    bounds = [child for child in children if isinstance(child, timedelta)]
    grace = [child for child in children if isinstance(child, Part)]
    return Part("within", (make_node(ast.Within, [bounds[0], bounds[-1], *grace], span_of(meta)),))


def _duration(children: list[Any], meta: Meta) -> timedelta:
    number, unit = children
    try:
        return timedelta(milliseconds=int(number) * MILLISECONDS[unit.name.removesuffix("S")])
    except (OverflowError, ValueError):
        raise KsqlSyntaxError("the duration is too long", span=span_of(meta), fix="write a shorter one") from None


def _joined(kind: str) -> Rule:
    return lambda children, meta: Part("kind", (kind,))


# -- statements -----------------------------------------------------------------------------------------------------


def _words(field: str) -> Rule:
    """For rules with `!`: returns the keywords themselves."""
    return lambda children, meta: Part(field, (" ".join(map(str, children)),))


def _verbatim(field: str) -> Rule:
    """For names that are not folded, such as those of topics."""
    return lambda children, meta: Part(field, (str(children[0]),))


def _constraint(children: list[Any], meta: Meta) -> Part:
    return Part("constraint", (ast.Constraint(" ".join(map(str, children))),))


def _element(children: list[Any], meta: Meta) -> ast.Element:
    if any(isinstance(child, Part) and child.field == "header" for child in children):
        children = [*children, Part("constraint", (ast.Constraint.HEADER,))]
    return make_node(ast.Element, children, span_of(meta))


def _property(children: list[Any], meta: Meta) -> ast.Property:
    # A quoted name keeps its case here; `_upper_names` folds all but those of connectors.
    name, value = children
    return ast.Property(fold_name(name), getattr(value, "value", None), span=span_of(meta))


def _upper(of: type[ast.Statement]) -> Rule:
    """For statements about sources, whose property names are upper case even if quoted."""

    def rule(children: list[Any], meta: Meta) -> Any:
        return make_node(of, [_upper_names(child) for child in children], span_of(meta))

    return rule


def _upper_names(child: Any) -> Any:
    if not (isinstance(child, Part) and child.field == "properties"):
        return child
    return Part("properties", tuple(ast.Property(p.name.upper(), p.value, span=p.span) for p in child.children))


def _describe(*fixed: Part) -> Rule:
    return lambda children, meta: make_node(ast.Describe, [*children, *fixed], span_of(meta))


def _change(children: list[Any], meta: Meta) -> Part:
    """`percent` is a part; the comparison and the time span are in order."""
    return Part("when", (make_node(ast.ChangeOf, children, span_of(meta)),))


def _deviation(children: list[Any], meta: Meta) -> Part:
    return Part("when", (make_node(ast.DeviationOf, children, span_of(meta)),))


_SOURCE = Part("what", ("SOURCE",))
_STATEMENTS: dict[str, Rule] = {
    "query": _query,
    "union": _union,
    "emit": _emit,
    "per_batch": lambda children, meta: Part("pace", (PerBatch(),)),
    "every": lambda children, meta: Part("pace", (Every(children[0]),)),
    "after": lambda children, meta: Part("pace", (After(children[0]),)),
    "early": _pane("early"),
    "late": _pane("late"),
    "results": lambda children, meta: Part("results", (str(children[0]).lower(),)),
    "as_of": _as_of,
    "distinct": _distinct,
    "within": _within,
    "duration": _duration,
    "inner": _joined("INNER"),
    "left_outer": _joined("LEFT"),
    "right_outer": _joined("RIGHT"),
    "full_outer": _joined("FULL"),
    "window_name": lambda children, meta: Part("name", tuple(children)),
    "kind": _words("kind"),
    "what": _words("what"),
    "verb": _words("verb"),
    "op": _words("op"),
    "topic": _verbatim("topic"),
    "subject": _verbatim("subject"),
    "variable": _verbatim("name"),
    "explained": lambda children, meta: Part("statement", tuple(children)),
    "absent": lambda children, meta: Part("exists", (False,)),
    "constraint": _constraint,
    "element": _element,
    "property": _property,
    "create_source": _upper(ast.CreateSource),
    "create_as": _upper(ast.CreateAs),
    "insert_into": _upper(ast.InsertInto),
    "assert_source": _upper(ast.AssertSource),
    "assert_topic": _upper(ast.AssertTopic),
    "create_notifier": _upper(ast.CreateNotifier),
    "kind_name": lambda children, meta: Part("kind", tuple(children)),
    "absence": lambda children, meta: children[0],
    "change": _change,
    "deviation": _deviation,
    "describe_source": _describe(_SOURCE),
    "describe_extended": _describe(_SOURCE, Part("extended", ())),
}
RULES: dict[str, Rule] = {**_STATEMENTS, **EXPRESSIONS}
