"""Parses KSQL text to statements.

All syntax errors of a script are reported, up to a hundred: after an error, parsing resumes after the next `;`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lark.exceptions import VisitError

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.ast_builder import build_ast
from headrace.lang.ksql.grammar.automaton import Refused, run
from headrace.lang.ksql.grammar.limits import MAX_ERRORS, check_limits
from headrace.lang.ksql.grammar.syntax_errors import syntax_error
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize
from headrace.lang.ksql.grammar.variables import substitute_variables
from headrace.span import Span


@dataclass(frozen=True)
class ParsedStatement:
    """A statement with its own text, or the error; and in either case its tokens as written.

    See `lang.contract.ParsedStatement`.
    """

    tokens: Sequence[Token]
    statement: ast.Statement | None = None
    text: str = ""
    error: KsqlSyntaxError | None = None

    @property
    def span(self) -> Span:
        return self.tokens[0].span if self.statement is None else self.statement.span or self.tokens[0].span

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(ast.sources_named(self.statement))

    @property
    def writes(self) -> str | None:
        return self.statement.target if isinstance(self.statement, ast.InsertInto) else None

    @property
    def inserts_rows(self) -> bool:
        return isinstance(self.statement, ast.InsertValues)

    @property
    def returns_rows(self) -> bool:
        return isinstance(self.statement, ast.SelectStatement | ast.Print)

    @property
    def script(self) -> str | None:
        return self.statement.path if isinstance(self.statement, ast.RunScript) else None


def read_statements(text: str, variables: dict[str, str], *, name: str | None = None) -> Iterator[ParsedStatement]:
    """Parses statement by statement. DEFINE changes the variables when it is reached; so may the caller."""
    errors = 0
    for tokens in _statements(text):
        try:
            statement, own_text = _statement(text, tokens, variables)
        except KsqlSyntaxError as error:
            yield ParsedStatement(tokens, error=error.located(text, name))
            errors += 1
            if errors == MAX_ERRORS:
                return
        else:
            _define(statement, variables)
            yield ParsedStatement(tokens, statement, own_text)


def parse_one(text: str) -> ast.Statement:
    """Parses exactly one statement, with or without `;`."""
    statements: list[ast.Statement] = []
    for reading in read_statements(text, {}):
        if reading.error is not None:
            raise reading.error
        if reading.statement is not None:
            statements.append(reading.statement)
    if len(statements) != 1:
        raise KsqlSyntaxError(f"expected one statement, found {len(statements)}", fix="send one statement at a time")
    return statements[0]


def parse_expression(text: str) -> ast.Expr:
    """Parses an expression."""
    try:
        tokens = list(tokenize(text))
        for token in tokens:
            if token.kind is Kind.SYMBOL and token.value == ";":
                raise KsqlSyntaxError('an expression cannot contain ";"', span=token.span, fix="remove it")
        return _tree(text, tokens, "expression")
    except KsqlSyntaxError as error:
        raise error.located(text) from None


def count_statements(text: str) -> int:
    """Returns the number of statements, valid or not."""
    return sum(1 for _ in _statements(text))


def _statements(text: str) -> Iterator[list[Token]]:
    """Yields the tokens of each statement, with its `;` if there is one."""
    statement: list[Token] = []
    for token in tokenize(text):
        statement.append(token)
        if token.kind is Kind.SYMBOL and token.value == ";":
            yield statement
            statement = []
    if statement:
        yield statement


def _statement(text: str, tokens: list[Token], variables: Mapping[str, str]) -> tuple[ast.Statement, str]:
    replaced = substitute_variables(tokens, variables)
    body = replaced[:-1] if replaced[-1].value == ";" and replaced[-1].kind is Kind.SYMBOL else replaced
    if not body:
        raise KsqlSyntaxError('there is no statement before the ";"', span=tokens[0].span, fix='remove the ";"')
    return _tree(text, body, "statement"), _own_text(text, tokens, variables)


def _own_text(text: str, tokens: Sequence[Token], variables: Mapping[str, str]) -> str:
    parts, at = [], tokens[0].span.start
    for token in tokens:
        new = substitute_variables([token], variables)
        if new != [token]:
            parts += [text[at : token.span.start], " ".join(part.text for part in new)]
            at = token.span.end
    return "".join([*parts, text[at : tokens[-1].span.end]])


def _tree(text: str, statement: Sequence[Token], start: str) -> Any:
    for token in statement:
        if token.problem:
            raise KsqlSyntaxError(token.problem, span=token.span, fix=token.fix)
    try:
        tree = build_ast(run(statement, start))
    except Refused as refused:
        raise syntax_error(text, statement, refused, start) from None
    except VisitError as error:
        raise error.orig_exc from None
    check_limits(tree, text)
    return tree


def _define(statement: ast.Statement, variables: dict[str, str]) -> None:
    match statement:
        case ast.Define(name=name, value=value):
            variables[name] = value
        case ast.Undefine(name=name):
            variables.pop(name, None)
