"""Parses JSON payloads with Spark alone, as strict and as lenient as the JSON serde.

Spark's parser stops where the first value ends, takes the first of duplicate names, and does not enforce headrace's
limits. So a payload is parsed as the first of two items of a list, the second of which cannot be guessed; names are
looked up by their last occurrence, exactly or else case-insensitively; and what headrace's parser refuses (half a
surrogate pair, numbers beyond the range of doubles, 257 levels) is searched for where there are signs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.realtime.json_values import quote_text, read_sql, reads_digits
from headrace.formats.column_types import kind_name
from headrace.formats.json.document import DEPTH
from headrace.schema import Field

ColumnStage = dict[str, str]
"""Columns in SQL over those of the previous stages."""

_SPACE = r"' \t\n\r'"
_OPTIONS = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"


@dataclass(frozen=True)
class JsonDocument:
    """The payload in column `payload`; column names begin with its `side`, those of the row are k0 or v0 and so on.

    `bare` is a single column's value without an object. `secret` is unknown to producers.
    """

    payload: str
    side: str
    columns: Sequence[Field]
    bare: bool
    secret: str

    def stages(self) -> list[ColumnStage]:
        """Column by column; `<side>_present` is whether there is a row, `<side>_fault` why it cannot be read."""
        return [self._parsed(), *self._entries(), *self._raw_values(), self._values(), self._faults()]

    def _of(self, name: str) -> str:
        return f"{self.side}_{name}"

    def _parsed(self) -> ColumnStage:
        text = f"cast({self.payload} as string)"
        opening, closing = ('[{"c":', "}") if self.bare else ("[", "")
        ending = f'{closing},{{"{self.secret}":null}}]'
        documents = f"concat({quote_text(opening)}, {text}, {quote_text(ending)})"
        parsed = {
            self._of(name): f"from_json({documents}, 'array<map<string, {kind}>>', {_OPTIONS})"
            for name, kind in (("texts", "string"), ("variants", "variant"))
        }
        return {self._of("text"): text, **parsed}

    def _entries(self) -> list[ColumnStage]:
        """Names and values from the last to the first, null if the payload is no object; and unmatched names."""
        texts, names = self._of("texts"), self._of("names")
        first, last = (f"get({texts}, {place})" for place in (0, 1))  # not [0]: Spark may evaluate it needlessly
        alone = f"size({texts}) = 2 and map_contains_key({last}, '{self.secret}') and size({last}) = 1"
        alone += f" and size({first}) = 1" if self.bare else ""
        entries = {
            names: f"if({alone}, reverse(map_keys({first})), null)",
            self._of("raws"): f"reverse(map_values({first}))",
            self._of("found"): f"reverse(map_values(get({self._of('variants')}, 0)))",
        }
        if self.bare:
            return [entries]
        declared = ", ".join(quote_text(column.name) for column in self.columns)
        others = f"filter(reverse(array_distinct(reverse({names}))), x -> x not in ({declared}))"
        uppers = f"transform({self._of('others')}, x -> upper(x))"
        return [entries, {self._of("others"): others}, {self._of("uppers"): uppers}]

    def _place(self, field: Field) -> str:
        """The position of a column among the names, from 1: by the exact name, or else case-insensitively."""
        if self.bare:
            return "1"
        names, others, uppers = (self._of(name) for name in ("names", "others", "uppers"))
        other = f"get({others}, cast(array_position({uppers}, {quote_text(field.name.upper())}) as int) - 1)"
        exact = f"nullif(array_position({names}, {quote_text(field.name)}), 0)"
        return f"cast(coalesce({exact}, array_position({names}, {other}), 0) as int)"

    def _raw_values(self) -> list[ColumnStage]:
        """For each column: its text from Spark's parser, its value, its kind, and its text with all digits."""
        stages: list[ColumnStage] = [{}, {}, {}]
        for i, field in enumerate(self.columns):
            at, raw, value, kind = (self._of(f"{name}{i}") for name in ("at", "raw", "value", "kind"))
            stages[0][at] = self._place(field)
            stages[1] |= {raw: f"get({self._of('raws')}, {at} - 1)", value: f"get({self._of('found')}, {at} - 1)"}
            stages[2][kind] = f"schema_of_variant({value})"
            if reads_digits(field.type):
                stages[2][self._of(f"exact{i}")] = f"try_variant_get({value}, '$', 'string')"
        return stages

    def _values(self) -> ColumnStage:
        names = ("raw", "exact", "kind")
        return {
            f"{self.side[0]}{i}": read_sql(field.type, *(self._of(f"{name}{i}") for name in names))
            for i, field in enumerate(self.columns)
        }

    def _faults(self) -> ColumnStage:
        text = self._of("text")
        is_null = f"trim(BOTH {_SPACE} FROM {text}) = 'null'"
        faults = [f"when {text} is null or {is_null} then null", f"when {_unfit(text)} then 'the payload is not JSON'"]
        faults += [f"when {self._of('names')} is null then 'the payload is not a JSON object'"]
        faults += [self._misfit(i, field) for i, field in enumerate(self.columns)]
        return {
            self._of("present"): f"coalesce({text} is not null and not {is_null}, false)",
            self._of("fault"): f"case {' '.join(faults)} end",
        }

    def _misfit(self, i: int, field: Field) -> str:
        raw, value = self._of(f"raw{i}"), f"{self.side[0]}{i}"
        message = quote_text(f'column "{field.name}": realtime mode cannot read {kind_name(field.type)} from ')
        text = f"concat({message}, coalesce(lower({self._of(f'kind{i}')}), 'nothing'), ' ', substr({raw}, 1, 40))"
        return f"when {raw} is not null and {value} is null then {text}"


# -- what Spark's parser accepts and headrace's refuses --------------------------------------------------------------

_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE, _BACKSLASH, _BRACKET = r"(?s)\\.", r"\\\\", r"[\[\]{}]"
_TEXT = '"[^"]*"'
_LARGE = r"[eE][+]?[0-9]{3}|[0-9]{309}"
_NUMBER = r"-?[0-9]+(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?"


def _unfit(text: str) -> str:
    return " or ".join(f"({sign})" for sign in (f"not is_valid_utf8({text})", _split(text), _deep(text), _huge(text)))


def _split(text: str) -> str:
    """Half a surrogate pair."""
    plain = f"regexp_replace({text}, {quote_text(_BACKSLASH)}, '.')"
    rest = f"regexp_replace({plain}, {quote_text(_PAIR)}, '.')"
    return f"{text} rlike {quote_text(_HALF)} and {rest} rlike {quote_text(_HALF)}"


def _without_texts(text: str) -> str:
    """A document without its strings; in simple steps, since one pattern would recurse."""
    escaped = f"regexp_replace({text}, {quote_text(_ESCAPE)}, '')"
    return f"regexp_replace({escaped}, {quote_text(_TEXT)}, '')"


def _deep(text: str) -> str:
    openings = f"length({text}) - length(translate({text}, '[{{', ''))"
    step = "named_struct('d', a.d + if(x in ('[', '{'), 1, -1), 'm', greatest(a.m, a.d + if(x in ('[', '{'), 1, -1)))"
    brackets = f"regexp_extract_all({_without_texts(text)}, {quote_text(_BRACKET)}, 0)"
    return (
        f"{openings} > {DEPTH} and"
        f" aggregate({brackets}, named_struct('d', 0, 'm', 0), (a, x) -> {step}, a -> a.m) > {DEPTH}"
    )


def _huge(text: str) -> str:
    """A number that is infinite as a double."""
    numbers = f"regexp_extract_all({_without_texts(text)}, {quote_text(_NUMBER)}, 0)"
    infinite = f"exists({numbers}, x -> abs(try_cast(x as double)) = double('Infinity'))"
    return f"{text} rlike {quote_text(_LARGE)} and {infinite}"
