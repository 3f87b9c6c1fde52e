"""`${name}`: variables of DEFINE, put in token by token, so that places still count in the text as written.

Inside of a text or a quoted name a variable that is not defined stays as it is; a bare one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql.limits import LONGEST_TEXT, MOST_TOKENS
from headrace.lang.ksql.tokens import Kind, Token, tokens

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


def substituted(statement: Sequence[Token], variables: Mapping[str, str]) -> list[Token]:
    """The statement's tokens with the variables' values in them."""
    replaced = (new for token in statement for new in _replaced(token, variables))
    found = list(islice(replaced, MOST_TOKENS + 1))
    if len(found) > MOST_TOKENS:
        what = f"the statement has more than {MOST_TOKENS} words and signs"
        raise KsqlSyntaxError(what, span=statement[0].span, fix="split it into several statements")
    return found


def _replaced(token: Token, variables: Mapping[str, str]) -> Iterator[Token]:
    if token.kind is Kind.VARIABLE:
        yield from _bare(token, variables)
    elif token.kind in (Kind.TEXT, Kind.QUOTED) and "${" in token.value:
        _check_length(token, variables)
        value = _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), token.value)
        quote = token.text[0]
        yield replace(token, value=value, text=quote + value.replace(quote, quote * 2) + quote)
    else:
        yield token


def _check_length(token: Token, variables: Mapping[str, str]) -> None:
    """A value may have variables in it when it is defined: a few steps of doubling would fill the memory."""
    if sum(len(variables.get(name, "")) for name in _VARIABLE.findall(token.value)) > LONGEST_TEXT:
        what = f"with its variables this is longer than {LONGEST_TEXT} characters"
        raise KsqlSyntaxError(what, span=token.span, fix="define shorter ones")


def _bare(token: Token, variables: Mapping[str, str]) -> Iterator[Token]:
    name = token.text[2:-1]
    if name not in variables:
        raise KsqlSyntaxError(
            f'variable "{name}" is not defined', span=token.span, fix=f"write DEFINE {name} = '...'; before it"
        )
    for new in tokens(variables[name]):
        # A value is a name, a literal or an expression; it must not end the statement it is put into.
        if new.kind is Kind.BAD or new.value == ";":
            raise KsqlSyntaxError(
                f'the value of variable "{name}" cannot stand here: {variables[name]}',
                span=token.span,
                fix="give it a name or a literal; a text needs quotes of its own: '''text'''",
            )
        yield replace(new, span=token.span)
