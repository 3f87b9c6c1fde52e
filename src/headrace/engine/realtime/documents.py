"""A JSON payload taken apart by Spark alone, so that what is strict, and what is generous, is as in the JSON serde.

Spark's parser stops where the first value ends, finds a name by its first place and knows no limits of ours. So a
payload is read as the first of two items of a list, the second of which nobody can guess; names are looked up by their
last place, exactly or else in any case; and what our parser refuses (half a surrogate pair, numbers beyond all doubles,
257 levels) is looked for where there are signs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.realtime.values import quoted, reading, reads_digits
from headrace.formats.document import DEPTH
from headrace.formats.serde.columns import kind_name
from headrace.schema import Field

Stage = dict[str, str]
"""Columns in SQL over those of the stages before."""

_SPACE = r"' \t\n\r'"
_OPTIONS = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"


@dataclass(frozen=True)
class Document:
    """The payload in column `payload`; columns are named after its `side`, those of the row k0 or v0 and so on.

    `bare` is the value of a single column alone. `secret` is known to no producer.
    """

    payload: str
    side: str
    columns: Sequence[Field]
    bare: bool
    secret: str

    def stages(self) -> list[Stage]:
        """Column by column; `<side>_there` is whether there is a row, `<side>_fault` why it cannot be read."""
        return [self._parsed(), *self._taken_apart(), *self._found(), self._values(), self._judged()]

    def _of(self, name: str) -> str:
        return f"{self.side}_{name}"

    def _parsed(self) -> Stage:
        text = f"cast({self.payload} as string)"
        opening, closing = ('[{"c":', "}") if self.bare else ("[", "")
        ending = f'{closing},{{"{self.secret}":null}}]'
        listed = f"concat({quoted(opening)}, {text}, {quoted(ending)})"
        parsed = {
            self._of(name): f"from_json({listed}, 'array<map<string, {kind}>>', {_OPTIONS})"
            for name, kind in (("texts", "string"), ("variants", "variant"))
        }
        return {self._of("text"): text, **parsed}

    def _taken_apart(self) -> list[Stage]:
        """Names and values from the last to the first, null if the payload is no object; and strange names."""
        texts, names = self._of("texts"), self._of("names")
        first, last = (
            f"get({texts}, {place})" for place in (0, 1)
        )  # Spark computes early what it may not need: no [0]
        alone = f"size({texts}) = 2 and map_contains_key({last}, '{self.secret}') and size({last}) = 1"
        alone += f" and size({first}) = 1" if self.bare else ""
        apart = {
            names: f"if({alone}, reverse(map_keys({first})), null)",
            self._of("raws"): f"reverse(map_values({first}))",
            self._of("found"): f"reverse(map_values(get({self._of('variants')}, 0)))",
        }
        if self.bare:
            return [apart]
        wanted = ", ".join(quoted(column.name) for column in self.columns)
        others = f"filter(reverse(array_distinct(reverse({names}))), x -> x not in ({wanted}))"
        uppers = f"transform({self._of('others')}, x -> upper(x))"
        return [apart, {self._of("others"): others}, {self._of("uppers"): uppers}]

    def _place(self, field: Field) -> str:
        """Where a column is among the names, from 1 on: by the exact name, or else in any case."""
        if self.bare:
            return "1"
        names, others, uppers = (self._of(name) for name in ("names", "others", "uppers"))
        other = f"get({others}, cast(array_position({uppers}, {quoted(field.name.upper())}) as int) - 1)"
        exact = f"nullif(array_position({names}, {quoted(field.name)}), 0)"
        return f"cast(coalesce({exact}, array_position({names}, {other}), 0) as int)"

    def _found(self) -> list[Stage]:
        """Of each column its text as Spark's parser gives it, the value, its kind, and its text to the last digit."""
        stages: list[Stage] = [{}, {}, {}]
        for i, field in enumerate(self.columns):
            at, raw, value, kind = (self._of(f"{name}{i}") for name in ("at", "raw", "value", "kind"))
            stages[0][at] = self._place(field)
            stages[1] |= {raw: f"get({self._of('raws')}, {at} - 1)", value: f"get({self._of('found')}, {at} - 1)"}
            stages[2][kind] = f"schema_of_variant({value})"
            if reads_digits(field.type):
                stages[2][self._of(f"exact{i}")] = f"try_variant_get({value}, '$', 'string')"
        return stages

    def _values(self) -> Stage:
        names = ("raw", "exact", "kind")
        return {
            f"{self.side[0]}{i}": reading(field.type, *(self._of(f"{name}{i}") for name in names))
            for i, field in enumerate(self.columns)
        }

    def _judged(self) -> Stage:
        text = self._of("text")
        is_null = f"trim(BOTH {_SPACE} FROM {text}) = 'null'"
        faults = [f"when {text} is null or {is_null} then null", f"when {_unfit(text)} then 'the payload is not JSON'"]
        faults += [f"when {self._of('names')} is null then 'the payload is not JSON, or no object'"]
        faults += [self._misfit(i, field) for i, field in enumerate(self.columns)]
        return {
            self._of("there"): f"coalesce({text} is not null and not {is_null}, false)",
            self._of("fault"): f"case {' '.join(faults)} end",
        }

    def _misfit(self, i: int, field: Field) -> str:
        raw, value = self._of(f"raw{i}"), f"{self.side[0]}{i}"
        said = quoted(f'column "{field.name}": the realtime way reads no {kind_name(field.type)} from ')
        shown = f"concat({said}, coalesce(lower({self._of(f'kind{i}')}), 'nothing'), ' ', substr({raw}, 1, 40))"
        return f"when {raw} is not null and {value} is null then {shown}"


# -- what Spark's parser lets pass ----------------------------------------------------------------------------------

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
    plain = f"regexp_replace({text}, {quoted(_BACKSLASH)}, '.')"
    rest = f"regexp_replace({plain}, {quoted(_PAIR)}, '.')"
    return f"{text} rlike {quoted(_HALF)} and {rest} rlike {quoted(_HALF)}"


def _without_texts(text: str) -> str:
    """A document without its texts; in three simple steps, as one pattern would recurse."""
    escaped = f"regexp_replace({text}, {quoted(_ESCAPE)}, '')"
    return f"regexp_replace({escaped}, {quoted(_TEXT)}, '')"


def _deep(text: str) -> str:
    openings = f"length({text}) - length(translate({text}, '[{{', ''))"
    step = "named_struct('d', a.d + if(x in ('[', '{'), 1, -1), 'm', greatest(a.m, a.d + if(x in ('[', '{'), 1, -1)))"
    brackets = f"regexp_extract_all({_without_texts(text)}, {quoted(_BRACKET)}, 0)"
    return (
        f"{openings} > {DEPTH} and"
        f" aggregate({brackets}, named_struct('d', 0, 'm', 0), (a, x) -> {step}, a -> a.m) > {DEPTH}"
    )


def _huge(text: str) -> str:
    """A number that is infinite as a double."""
    numbers = f"regexp_extract_all({_without_texts(text)}, {quoted(_NUMBER)}, 0)"
    infinite = f"exists({numbers}, x -> abs(try_cast(x as double)) = double('Infinity'))"
    return f"{text} rlike {quoted(_LARGE)} and {infinite}"
