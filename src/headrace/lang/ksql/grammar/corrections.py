"""Suggests how to correct a syntax error: each candidate is parsed, and kept only if the parser gets further."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.errors import closest
from headrace.lang.ksql.grammar.automaton import END, accepted_count
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.ksql.grammar.tokens import Kind, Token

_LOOKAHEAD = 6
"""Tokens after the error that a candidate may be checked with."""
_MAX_POSITION = 500
"""Every candidate parses the statement from its start, so errors further on get no suggestion."""
_SIMILARITY = 0.65
_CERTAIN_SIMILARITY = 0.85
"""A keyword this similar is suggested even if the parser rejects the token after it."""
_INSERTABLE = (",", ")", "]", ">", "=", "END")
"""Tried before keywords are."""
_NOT_INSERTABLE = frozenset({"AND", "AT", "BETWEEN", "HAVING", "IN", "IS", "LIKE", "NOT", "OR", "WHERE"})
"""Almost any of these fits after a value, so a missing one cannot be guessed."""
_STATEMENT_START = 3
"""Tokens by which the rest of a statement is recognized as another statement."""
_LITERALS = frozenset({"INTEGER", "DECIMAL", "DOUBLE", "TEXT", "TRUE", "FALSE", "NULL", "-"})
_SIMILAR_SYMBOLS = {"=>": ">=", "->": ">="}


@dataclass(frozen=True, slots=True)
class Correction:
    """What to do, and the token that is wrong."""

    fix: str
    token: Token | None


@dataclass(frozen=True)
class Rejection:
    """A rejected token: `place` is its index in `tokens`, `accepted` is what would be accepted there."""

    tokens: Sequence[Token]
    place: int
    accepted: frozenset[str]
    accepted_before: frozenset[str]
    start: str

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    @property
    def earlier(self) -> Token | None:
        return self.tokens[self.place - 1] if self.place else None

    def advances(self, removed: int, inserted: Sequence[Token], *, at: int, by: int = _LOOKAHEAD) -> bool:
        """Whether a change lets the parser accept the statement, or `by` more of its tokens."""
        end = self.place + _LOOKAHEAD + 2
        tail = self.tokens[at + removed : end]
        tokens = [*self.tokens[:at], *inserted, *tail]
        count = accepted_count(tokens, self.start)
        complete = len(tokens) + (end >= len(self.tokens))
        return count >= complete or count + removed - len(inserted) - self.place >= by


def correction(rejection: Rejection) -> Correction | None:
    """Returns the first correction that helps."""
    if rejection.place > _MAX_POSITION:
        return None
    return next(_corrections(rejection), None)


def _corrections(rejection: Rejection) -> Iterator[Correction]:
    # A misspelt keyword is often read as a name, and only the word after it is rejected.
    yield from _misspelt(rejection, rejection.token, rejection.place, rejection.accepted)
    yield from _misspelt(rejection, rejection.earlier, rejection.place - 1, rejection.accepted_before)
    yield from _wrong_symbol(rejection)
    yield from _wrong_quotes(rejection)
    yield from _reserved(rejection)
    yield from _surplus_comma(rejection)
    yield from _missing(rejection)
    yield from _missing_semicolon(rejection)
    yield from _surplus(rejection)
    yield from _unquoted_text(rejection)


def _misspelt(
    rejection: Rejection, suspect: Token | None, place: int, accepted: frozenset[str]
) -> Iterator[Correction]:
    if suspect is None or suspect.kind is not Kind.WORD or suspect.value.upper() in RESERVED:
        return
    word, keywords = suspect.value.upper(), sorted(filter(is_keyword, accepted))
    keyword = closest(word, keywords, _SIMILARITY)
    if keyword is None or keyword == word:
        return
    # Accepting only the keyword itself proves nothing: the rejected token, or the one after it, must be accepted.
    by = 1 if place < rejection.place or closest(word, [keyword], _CERTAIN_SIMILARITY) else 2
    if rejection.advances(1, [_word(keyword, suspect)], at=place, by=by):
        yield Correction(f"did you mean {keyword}?", suspect)


def _missing_semicolon(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    if token is None or token.kind is not Kind.WORD or END not in rejection.accepted:
        return
    end = rejection.place + _LOOKAHEAD
    following = rejection.tokens[rejection.place : end]
    count = accepted_count(following, rejection.start)
    if count >= min(len(following), _STATEMENT_START) and count > 1:
        yield Correction(f'add ";" before {_named(token)}', token)


def _wrong_symbol(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    similar = _SIMILAR_SYMBOLS.get(token.text) if token is not None else None
    if similar in rejection.accepted:
        yield Correction(f"did you mean {similar}?", token)


def _wrong_quotes(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    if token is not None and token.kind is Kind.QUOTED and "TEXT" in rejection.accepted:
        yield _in_quotes(token.value, token)


def _unquoted_text(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    if token is not None and token.kind is Kind.WORD and "TEXT" in rejection.accepted <= _LITERALS:
        yield _in_quotes("".join(_written_together(rejection)), token)


def _in_quotes(text: str, token: Token) -> Correction:
    escaped = text.replace("'", "''")
    return Correction(f"write a string in single quotes: '{escaped}'", token)


def _written_together(rejection: Rejection) -> Iterator[str]:
    """Yields the rejected token and what follows it without a space: `auto.offset.reset`."""
    end = None
    for token in rejection.tokens[rejection.place :]:
        if end is not None and (token.span.start != end or not (token.kind is Kind.WORD or token.text in (".", "-"))):
            return
        yield token.value
        end = token.span.end


def _reserved(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    if token is None or token.kind is not Kind.WORD or "IDENTIFIER" not in rejection.accepted:
        return
    if "ARRAY" in rejection.accepted and "CASE" not in rejection.accepted:  # the name of a type
        return
    word = token.value.upper()
    if word in RESERVED and rejection.advances(1, [replace(token, kind=Kind.QUOTED)], at=rejection.place):
        yield Correction(f"{word} is a reserved keyword; write `{word}` to use it as a name", token)


def _surplus_comma(rejection: Rejection) -> Iterator[Correction]:
    token, earlier = rejection.token, rejection.earlier
    if earlier is not None and earlier.text == "," and rejection.advances(1, [], at=rejection.place - 1):
        yield Correction(f'remove the "," before {_named(token)}', token)


def _surplus(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    if token is not None and rejection.advances(1, [], at=rejection.place):
        yield Correction(f"remove {_named(token)}", token)


def _missing(rejection: Rejection) -> Iterator[Correction]:
    token = rejection.token
    place = " at the end" if token is None else f" before {_named(token)}"
    for words in _insertable(rejection):
        helpful_words = [word for word in words if _helps(rejection, word)]
        if 0 < len(helpful_words) <= 2:
            yield Correction(f"add {' or '.join(map(_quoted, helpful_words))}{place}", token)


def _insertable(rejection: Rejection) -> Iterator[Collection[str]]:
    accepted = rejection.accepted
    yield from ([word] for word in _INSERTABLE if word in accepted)
    if "OR" in accepted and rejection.token is not None:
        yield ["AND", "OR"]
    if rejection.token is not None or "IDENTIFIER" not in accepted:  # at the end a name is more likely to be missing
        yield sorted(word for word in accepted - _NOT_INSERTABLE - {*_INSERTABLE} if is_keyword(word))
    yield accepted & {"("}


def _helps(rejection: Rejection, word: str) -> bool:
    near = rejection.token or rejection.earlier
    by = 2 if word == "(" else _LOOKAHEAD  # its counterpart may be missing, too
    return near is not None and rejection.advances(0, [_word(word, near)], at=rejection.place, by=by)


def _word(word: str, near: Token) -> Token:
    kind = Kind.WORD if word.isalpha() else Kind.SYMBOL
    return Token(kind, word, word, near.span)


def _named(token: Token | None) -> str:
    return "the end" if token is None else quoted_text(token)


def quoted_text(token: Token) -> str:
    """Returns the text of a token in double quotes, if it has no quotes of its own."""
    text = token.text if len(token.text) <= _MAX_SHOWN else f"{token.text[: _MAX_SHOWN - 3]}..."
    return text if text[0] in "'`\"" else f'"{text}"'


_MAX_SHOWN = 40


def _quoted(word: str) -> str:
    return word if word.isalpha() else f'"{word}"'


def is_keyword(word: str) -> bool:
    """Whether a written terminal is a keyword, not a symbol or a kind of token."""
    return word.replace("_", "").isalpha() and word not in _KINDS


_KINDS = frozenset({*Kind, "IDENTIFIER", "_LAMBDA_OPEN"})
