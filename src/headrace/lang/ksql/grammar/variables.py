"""Substitutes `${name}` variables of DEFINE token by token, so that positions still refer to the text as written.

Inside a string or a quoted name an undefined variable stays as it is; a bare one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql.grammar.limits import MAX_TEXT_LENGTH, MAX_TOKENS
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


def substitute_variables(statement: Sequence[Token], variables: Mapping[str, str]) -> list[Token]:
    """Returns the statement's tokens with variables replaced by their values."""
    replaced = (new for token in statement for new in _replaced(token, variables))
    tokens = list(islice(replaced, MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        what = f"the statement has more than {MAX_TOKENS} tokens"
        raise KsqlSyntaxError(what, span=statement[0].span, fix="split it into several statements")
    return tokens


def _replaced(token: Token, variables: Mapping[str, str]) -> Iterator[Token]:
    if token.kind is Kind.VARIABLE:
        yield from _bare(token, variables)
    elif token.kind in (Kind.TEXT, Kind.QUOTED) and "${" in token.value:
        _check_length(token, variables)
        value = _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), token.value)
        quote = token.text[0]
        yield replace(token, value=value, text=quote + value.replace(quote, quote * 2) + quote)
    else:
        yield token


def _check_length(token: Token, variables: Mapping[str, str]) -> None:
    """Limits the length: a value may contain variables when it is defined, so a few doublings would exhaust memory."""
    if sum(len(variables.get(name, "")) for name in _VARIABLE.findall(token.value)) > MAX_TEXT_LENGTH:
        what = f"after variable substitution the statement is longer than {MAX_TEXT_LENGTH} characters"
        raise KsqlSyntaxError(what, span=token.span, fix="define shorter variables")


def _bare(token: Token, variables: Mapping[str, str]) -> Iterator[Token]:
    name = token.text[2:-1]
    if name not in variables:
        raise KsqlSyntaxError(
            f'variable "{name}" is not defined', span=token.span, fix=f"write DEFINE {name} = '...'; before it"
        )
    for new in tokenize(variables[name]):
        # A value is a name, a literal or an expression; it must not end the statement it is inserted into.
        if new.kind is Kind.BAD or new.value == ";":
            raise KsqlSyntaxError(
                f'the value of variable "{name}" cannot be used here: {variables[name]}',
                span=token.span,
                fix="define it as a name or a literal; a string needs its own quotes: '''text'''",
            )
        yield replace(new, span=token.span)
