"""KSQL as a dialect: joins the phases of this package behind `lang.contract`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from headrace.lang.contract import CheckedScript, Completion, DescribeContext, Dialect
from headrace.lang.ksql.describe.lists import describe_metadata
from headrace.lang.ksql.grammar.automaton import first_words
from headrace.lang.ksql.grammar.keywords import RESERVED, keywords
from headrace.lang.ksql.grammar.parser import ParsedStatement, count_statements, parse_one, read_statements
from headrace.lang.ksql.properties import DEFAULT_PROPERTIES
from headrace.lang.ksql.query.conditions import plan_condition
from headrace.lang.ksql.query.prepared import parameterize, parse_parameterized
from headrace.lang.ksql.query.transient import plan_transient_query
from headrace.lang.ksql.scripts.checker import check_script
from headrace.lang.ksql.statement_formatter import statement_sql
from headrace.lang.ksql.statements.planner import Planner
from headrace.lang.listing import Listing
from headrace.plan.actions import Action, MetadataQuery, TransientSelect
from headrace.plan.catalog import Catalog
from headrace.plan.expressions import ParameterCell
from headrace.plan.functions import AGGREGATES, SCALARS
from headrace.plan.nodes import Filter
from headrace.plan.sources import SourceInfo


class KsqlPlanner:
    """Plans parsed statements; see `contract.StatementPlanner`."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.catalog = planner.catalog
        self.properties = planner.properties

    def plan(self, statement: ParsedStatement) -> Action:
        if statement.statement is None:
            raise statement.error or LookupError("the statement has neither a tree nor an error")
        return self._planner.plan(statement.statement, statement.text)


class KsqlDialect(Dialect):
    name: ClassVar[str] = "ksql"
    file_endings: ClassVar[tuple[str, ...]] = (".ksql", ".sql")
    default_properties: Mapping[str, Any] = DEFAULT_PROPERTIES
    reserved: Collection[str] = RESERVED

    def parse(self, text: str, variables: dict[str, str], *, name: str | None = None) -> Iterator[ParsedStatement]:
        return read_statements(text, variables, name=name)

    def planner(self, catalog: Catalog, properties: Mapping[str, Any] | None = None) -> KsqlPlanner:
        return KsqlPlanner(Planner(catalog, properties))

    def count(self, text: str) -> int:
        return count_statements(text)

    def check(
        self,
        text: str,
        name: str | None = None,
        catalog: Catalog | None = None,
        properties: Mapping[str, Any] | None = None,
        *,
        reads_files: bool = True,
    ) -> CheckedScript:
        return check_script(text, name, catalog, properties, reads_files=reads_files)

    def describe(self, query: MetadataQuery, context: DescribeContext) -> Listing:
        return describe_metadata(query, context)

    def completions(self, catalog: Catalog) -> list[Completion]:
        words = super().completions(catalog)
        words += [Completion(name, "type") for name in catalog.types]
        words += [Completion(name, "function", "function") for name in sorted({*SCALARS, *AGGREGATES})]
        starts = first_words()
        words += [Completion(name, "keyword", starts_statement=name in starts) for name in sorted(keywords())]
        unique: dict[str, Completion] = {}
        for word in words:
            unique.setdefault(word.label, word)
        return list(unique.values())

    def format(self, text: str) -> str:
        return statement_sql(parse_one(text))

    def condition(self, text: str, source: SourceInfo, types: Mapping[str, pa.DataType]) -> Filter:
        return plan_condition(text, source, types)

    def parameterize(self, text: str) -> tuple[str, list[Any]] | None:
        return parameterize(text)

    def plan_parameterized(
        self, text: str, values: Sequence[Any], catalog: Catalog
    ) -> tuple[TransientSelect, Sequence[ParameterCell]] | None:
        parsed = parse_parameterized(text, values)
        return None if parsed is None else (plan_transient_query(parsed[0], catalog, {}, ""), parsed[1])
