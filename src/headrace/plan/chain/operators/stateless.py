"""Stateless steps: filter, select, rekey and explode, each one loop of generated code over the batch.

A row of None stays None where values are computed: no payload on a stream, a deletion on a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from headrace.plan.chain.step_builder import ALWAYS, NEVER, step_of
from headrace.plan.codegen.code import CodeBuilder, StatementCode, indented
from headrace.plan.codegen.compiler import evaluator, predicate, projector
from headrace.plan.expressions import Expression, column_names
from headrace.plan.nodes import Explode, Filter, Node, Rekey, Select, Sink, Union
from headrace.plan.relations import Kind, Relation
from headrace.plan.rewrite import relation_of
from headrace.plan.steps import Batch, Context, Event, Problem, Step


@dataclass(frozen=True, slots=True)
class BatchFunctionStep:
    """A step that is one function of the batch."""

    run: Callable[[Batch], Batch]

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        return self.run(batch)


def _loop(code: CodeBuilder, lines: Sequence[str], unpack: str = "time, key, row") -> Callable[[Batch], Batch]:
    """Compiles a function that runs the lines for every entry of a batch; they `append` to the output."""
    each = [f"{unpack} = entry", *lines]
    return code.function(
        "batch", ["out = []", "append = out.append", "for entry in batch:", *indented(each), "return out"]
    )


def _quiet(context: Context) -> Context:
    """Returns a context without reports, for old rows: their failures were reported when the rows were new."""

    def ignore(problem: Problem) -> None:
        del problem

    return replace(context, report=ignore)


# -- sources and sinks ----------------------------------------------------------------------------------------------


@step_of(Sink)
@step_of(Union)
def pass_through(node: Node, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds a step that returns its input."""
    del node, context, old, inputs
    return BatchFunctionStep(lambda batch: batch)


# -- filter ---------------------------------------------------------------------------------------------------------


@step_of(Filter, old_from=ALWAYS)
def filtered(node: Filter, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step. On a table it needs `old`: a row that matched neither before nor now emits nothing."""
    del old, inputs
    if node.relation.kind is Kind.STREAM:
        return BatchFunctionStep(_stream_filter(node, context))
    return BatchFunctionStep(_change_filter(node, context))


def _stream_filter(node: Filter, context: Context) -> Callable[[Batch], Batch]:
    code = CodeBuilder(relation_of(node.input), context, "WHERE")
    holds = code.condition(node.condition)
    filter_lines = [*code.opening(), *holds.lines, f"if {holds.text}:", "    append(entry)"]
    return _loop(code, ["if row is not None:", *indented(filter_lines)])


def _change_filter(node: Filter, context: Context) -> Callable[[Batch], Batch]:
    relation = relation_of(node.input)
    fits = predicate(node.condition, relation, context, "WHERE")
    fitted = predicate(node.condition, relation, _quiet(context), "WHERE")

    def run(batch: Batch) -> Batch:
        out: Batch = []
        for time, key, new, old in batch:
            after = new if new is not None and fits(time, key, new) else None
            before = old if old is not None and fitted(time, key, old) else None
            if after is not None or before is not None:
                out.append((time, key, after, before))
        return out

    return run


# -- select ---------------------------------------------------------------------------------------------------------


@step_of(Select)
def selected(node: Select, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del inputs
    if old:
        return BatchFunctionStep(_change_select(node, context))
    code = CodeBuilder(relation_of(node.input), context, "SELECT")
    values = code.columns(node.values)
    is_stream = node.relation.kind is Kind.STREAM
    new = f"append((time, key, {values.text}{'' if is_stream else ', None'}))"
    none = "append(entry)" if is_stream else "append((time, key, None, None))"
    lines = ["if row is None:", f"    {none}", "    continue", *code.opening(), *values.lines, new]
    return BatchFunctionStep(_loop(code, lines, "time, key, row" if is_stream else "time, key, row, _"))


def _change_select(node: Select, context: Context) -> Callable[[Batch], Batch]:
    expressions, relation = [named.expression for named in node.values], relation_of(node.input)
    after = projector(expressions, relation, context, "SELECT")
    before = projector(expressions, relation, _quiet(context), "SELECT", position=3)

    def run(batch: Batch) -> Batch:
        pairs = zip(batch, after(batch), before(batch), strict=True)
        return [(entry[0], entry[1], new, old) for entry, new, old in pairs]

    return run


# -- rekey ----------------------------------------------------------------------------------------------------------


@step_of(Rekey, old_from=NEVER)
def rekeyed(node: Rekey, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step. A null key of one column is no key. Without a row, only values of the old key are known."""
    del old, inputs
    relation = relation_of(node.input)
    code = CodeBuilder(relation, context, "PARTITION BY")
    keys = code.columns(node.keys)
    key_only = evaluator([named.expression for named in node.keys], relation, _quiet(context), "PARTITION BY")
    from_key = [_is_from_key(named.expression, relation) for named in node.keys]

    def without_row(time: int, key: Any) -> tuple[Any, ...]:
        return tuple(v if known else None for v, known in zip(key_only(time, key, None), from_key, strict=True))

    return BatchFunctionStep(_loop(code, _rekey_lines(node, code, keys, code.constant(without_row))))


def _rekey_lines(node: Rekey, code: CodeBuilder, keys: StatementCode, without_row: str) -> list[str]:
    single = len(node.keys) == 1
    lines = [
        "if row is None:",
        f"    new = {without_row}(time, key)",
        "else:",
        *indented([*code.opening(), *keys.lines, f"new = {keys.text}"]),
    ]
    if single:
        lines += ["if new[0] is None:", "    new = None"]
    if not node.keys:
        lines += ["new = None"]
    lines += _old_key(node)
    if node.explicit:
        return [*lines, "append((time, new, row))"]
    # A key with a null in it matches nothing in a join.
    has_key = "new is not None" if single else "new is not None and None not in new"
    report = code.constant(_keyless(code.context))
    return [*lines, f"if {has_key}:", "    append((time, new, row))", "else:", f"    {report}(time, key, row)"]


def _keyless(context: Context) -> Callable[[int, Any, Any], None]:
    def report(time: int, key: Any, row: Any) -> None:
        context.report(Problem("null-key", "a join needs a key", "JOIN ON", time, key, row))

    return report


def _old_key(node: Rekey) -> list[str]:
    """Returns the lines that append the old key's columns to the row."""
    before = relation_of(node.input)
    names = [field.name for field in before.key]
    places = [names.index(field.name) for field in node.relation.value[len(before.value) :]]
    if not places:
        return []
    old_key = ", ".join(f"key[{place}]" for place in places)
    nothing = ", ".join("None" for _ in places)
    return ["if row is not None:", f"    row = (*row, {old_key}) if key is not None else (*row, {nothing})"]


def _is_from_key(expression: Expression, relation: Relation) -> bool:
    return column_names(expression) <= {field.name for field in relation.key}


# -- explode --------------------------------------------------------------------------------------------------------


@step_of(Explode, old_from=NEVER)
def exploded(node: Explode, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step: one row per item of the longest list; shorter lists are padded with nulls."""
    del old, inputs
    lists = projector([named.expression for named in node.functions], relation_of(node.input), context, "SELECT")

    def run(batch: Batch) -> Batch:
        out: list[Event] = []
        for (time, key, row), values in zip(batch, lists(batch), strict=True):
            if values is not None:
                out += [(time, key, row + items) for items in zip_longest(*(value or () for value in values))]
        return out

    return BatchFunctionStep(run)
