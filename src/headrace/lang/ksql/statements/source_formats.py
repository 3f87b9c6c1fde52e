"""Checks of a stored stream or table: formats that support its columns, a valid key, a valid timestamp column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import BadDatetimePattern, BadName, BadProperty, HeadraceError, StatementError, UnknownFormat
from headrace.formats.lookup import find_format, wrappings
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import SYSTEM_TYPES
from headrace.lang.ksql.properties import WRAP_VALUES
from headrace.lang.ksql.query.select import check_key_type
from headrace.lang.ksql.statements.with_properties import Properties
from headrace.plan import types as t
from headrace.plan.functions.java.datetime_format import compile_pattern, parser
from headrace.plan.relations import Format, Kind, Relation, Timestamp
from headrace.schema import Field


def checked_formats(
    relation: Relation, properties: Properties, key: Format, value: Format, node: ast.Ast
) -> tuple[Format, Format]:
    """Returns both formats, checked against the columns; the value format says whether a single column is unwrapped."""
    for field in relation.key:
        check_key_type(field.type, node, field.name)
    wrapped = _wrapped(relation, properties, value)
    value = replace(value, options=(*value.options, ("wrapped", wrapped)))
    if not relation.key and not {"KEY_FORMAT", "FORMAT"} & set(properties.values):
        key = Format("NONE")
    for form, columns, name in ((key, relation.key, "KEY_FORMAT"), (value, relation.value, "VALUE_FORMAT")):
        try:
            check_format(form, columns, node, is_key=name == "KEY_FORMAT")
        except UnknownFormat as error:
            declaration = properties.written.get(name) or properties.written.get("FORMAT")
            error.span = declaration.span if declaration else error.span
            raise
    return key, value


def check_format(form: Format, columns: Sequence[Field], node: ast.Ast, *, is_key: bool) -> None:
    options = {name: option for name, option in form.options if name != "wrapped"}
    wrapped = len(columns) > 1 if is_key else bool(form.option("wrapped", True))
    try:
        find_format(form.name, options).check(columns, is_key=is_key, wrapped=wrapped)
    except StatementError as error:
        error.span = error.span or node.span
        raise
    except HeadraceError as error:
        raise BadProperty(error.what, span=node.span, fix=error.fix) from error


def _wrapped(relation: Relation, properties: Properties, value: Format) -> bool:
    wrap = properties.get("WRAP_SINGLE_VALUE")
    if wrap is not None:
        if len(relation.value) != 1:
            raise properties.error(
                "WRAP_SINGLE_VALUE", "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas", "remove it"
            )
        if wrap not in wrappings(value.name):
            raise properties.error(
                "WRAP_SINGLE_VALUE",
                f"Format '{value.name}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'.",
            )
        return wrap
    if True not in wrappings(value.name):
        return False
    default = str(properties.settings.get(WRAP_VALUES, "true")).lower() != "false"
    return default if len(relation.value) == 1 else True


def time_column(relation: Relation, properties: Properties) -> Timestamp | None:
    """Returns the timestamp column, if the statement names one."""
    name = properties.get("TIMESTAMP")
    if name is None:
        return None
    pattern = properties.get("TIMESTAMP_FORMAT")
    field = relation.column(name.strip("`")) or relation.column(name.upper())
    if field is None:
        raise properties.error("TIMESTAMP", f"The TIMESTAMP column set in the WITH clause does not exist: '{name}'")
    if field.type == t.STRING:
        if pattern is None:
            raise properties.error("TIMESTAMP", _no_time(field), "add TIMESTAMP_FORMAT='yyyy-MM-dd', for example")
        _check_pattern(pattern, properties)
        return Timestamp(field.name, _readable(pattern, properties))
    if field.type not in (t.BIGINT, t.TIMESTAMP):
        raise properties.error("TIMESTAMP", _no_time(field))
    if pattern is not None:
        raise properties.error(
            "TIMESTAMP_FORMAT",
            "'TIMESTAMP_FORMAT' set in the WITH clause can only be used when the timestamp column is of type STRING.",
        )
    return Timestamp(field.name)


def index_columns(relation: Relation, properties: Properties, *, materialized: bool) -> tuple[tuple[str, ...], ...]:
    """Parses INDEXES='city; city, amount': columns by which a materialized table can be looked up."""
    text = properties.get("INDEXES")
    if text is None:
        return ()
    if relation.kind is not Kind.TABLE or not materialized:
        raise properties.error(
            "INDEXES", "INDEXES requires a materialized table", "use CREATE SOURCE TABLE or CREATE TABLE AS SELECT"
        )
    return tuple(
        tuple(_indexed(name.strip(), relation, properties) for name in index.split(","))
        for index in text.split(";")
        if index.strip()
    )


def _indexed(name: str, relation: Relation, properties: Properties) -> str:
    field = relation.column(name.strip("`")) or relation.column(name.upper())
    if field is None:
        known = ", ".join(field.name for field in relation.columns)
        raise properties.error("INDEXES", f"the table has no column '{name}'", f"its columns are: {known}")
    return field.name


def _check_pattern(pattern: str, properties: Properties) -> None:
    try:
        compile_pattern(pattern)
    except BadDatetimePattern as error:
        what = f"Invalid datetime format for config:TIMESTAMP_FORMAT, reason:{error.what}"
        raise properties.error("TIMESTAMP_FORMAT", what, error.fix) from error


def _readable(pattern: str, properties: Properties) -> str:
    try:
        parser(pattern)
    except HeadraceError as error:
        raise properties.error("TIMESTAMP_FORMAT", error.what, error.fix) from error
    return pattern


def _no_time(field: Field) -> str:
    return (
        f"Timestamp column, `{field.name}`, should be LONG(INT64), TIMESTAMP, "
        "or a String with a timestamp_format specified"
    )


def check_reserved(name: str, node: ast.Ast) -> None:
    if name in SYSTEM_TYPES:
        raise BadName(
            f"'{name}' is a reserved column name. You cannot use it as a name for a column.",
            span=node.span,
            fix="choose another name",
        )
