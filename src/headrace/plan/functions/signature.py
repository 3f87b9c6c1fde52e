"""Parses signatures to patterns, and resolves a call to the overload that fits its arguments.

A call is first tried with the arguments as they are, then with numbers widened (INT < BIGINT < DECIMAL < DOUBLE) and
text read as a date or time. Among several overloads that fit, one with a fixed number of parameters is preferred to one
with dots, more parameters to fewer, and fewer type letters to more; if two still tie, the call is ambiguous.

A call with lambdas takes two steps: `lambda_parameters` returns the types of the lambdas' parameters, and when the
bodies are typed `resolve` gets the lambdas with their result types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from headrace.errors import AmbiguousCall, WrongArguments
from headrace.plan import types
from headrace.plan.functions.declaration import AggregateOverload, Overload
from headrace.plan.functions.type_patterns import (
    UNIT,
    AnyDecimal,
    AnyType,
    AnyUnit,
    Argument,
    ArrayOf,
    ExactType,
    LambdaOf,
    LambdaType,
    MapOf,
    Pattern,
    StructOf,
    TypeBindings,
    TypeVariable,
    UnitType,
    type_text,
)
from headrace.schema import PRIMITIVES, SYNONYMS

__all__ = [
    "UNIT",
    "Argument",
    "LambdaType",
    "Parameter",
    "ResolvedCall",
    "Signature",
    "UnitType",
    "lambda_parameters",
    "parse_signature",
    "resolve",
    "type_text",
]

_TEMPORAL = (types.DATE, types.TIME, types.TIMESTAMP)

AnyOverload = TypeVar("AnyOverload", bound=Overload | AggregateOverload, covariant=True)


class AnyFunction(Protocol[AnyOverload]):
    """A function of either kind."""

    @property
    def name(self) -> str: ...
    @property
    def overloads(self) -> tuple[AnyOverload, ...]: ...


# -- signatures -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    name: str
    pattern: Pattern
    variadic: bool = False
    const: bool = False

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''} {self.name}"


@dataclass(frozen=True)
class Signature:
    parameters: tuple[Parameter, ...]
    result: Pattern

    @property
    def variadic(self) -> bool:
        return any(parameter.variadic for parameter in self.parameters)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Higher is a closer fit."""
        generics = sum(parameter.pattern.generics for parameter in self.parameters)
        return not self.variadic, len(self.parameters), -generics

    def spread(self, count: int) -> tuple[Parameter, ...] | None:
        """Returns the parameter of each of `count` arguments; None if that number of arguments is not possible."""
        spare = count - len(self.parameters)
        if not self.variadic:
            return self.parameters if spare == 0 else None
        if spare < -1:
            return None
        return tuple(p for p in self.parameters for _ in range(spare + 1 if p.variadic else 1))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))})"


@cache
def parse_signature(text: str) -> Signature:
    """Parses the text form (see `declaration`)."""
    return _Reader(text).signature()


Item = TypeVar("Item")


class _Reader:
    """Recursive-descent parser over the tokens of a signature; a failure is a bug in a declaration."""

    _TOKEN = re.compile(r"->|\.\.\.|\w+|[<>(),:]")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*self._TOKEN.findall(text), ""]
        self.at = 0

    def signature(self) -> Signature:
        self._expect("(")
        parameters = tuple(self._items(")", self._parameter))
        self._expect("->")
        signature = Signature(parameters, self._pattern())
        self._expect("")
        return signature

    def _parameter(self) -> Parameter:
        name = self._next()
        self._expect(":")
        const = self._accept("const")
        pattern = self._pattern()
        return Parameter(name, pattern, self._accept("..."), const)

    def _pattern(self) -> Pattern:
        word = self._next()
        if len(word) == 1 and word.isupper():
            return TypeVariable(word)
        reader = self._READERS.get(word)
        if reader is not None:
            return reader(self)
        name = SYNONYMS.get(word, word)
        if name not in PRIMITIVES:
            raise ValueError(f"no type {word!r} in signature {self.text!r}")
        return ExactType(PRIMITIVES[name])

    def _decimal(self) -> Pattern:
        if not self._accept("("):
            return AnyDecimal()
        precision, scale = self._items(")", lambda: int(self._next()))
        return ExactType(types.decimal(precision, scale))

    def _array(self) -> Pattern:
        (item,) = self._inside()
        return ArrayOf(item)

    def _map(self) -> Pattern:
        key, value = self._inside()
        return MapOf(key, value)

    def _struct(self) -> Pattern:
        return StructOf(tuple(self._items(">", self._field)) if self._accept("<") else ())

    def _field(self) -> tuple[str, Pattern]:
        name = self._next()
        self._accept(":")
        return name, self._pattern()

    def _lambda(self) -> Pattern:
        self._expect("(")
        parameters = tuple(self._items(")", self._pattern))
        self._expect("->")
        return LambdaOf(parameters, self._pattern())

    _READERS: ClassVar[dict[str, Callable[[_Reader], Pattern]]] = {
        "any": lambda self: AnyType(),
        "unit": lambda self: AnyUnit(),
        "decimal": _decimal,
        "array": _array,
        "map": _map,
        "struct": _struct,
        "lambda": _lambda,
    }

    def _inside(self) -> Iterator[Pattern]:
        self._expect("<")
        return self._items(">", self._pattern)

    def _items(self, end: str, read: Callable[[], Item]) -> Iterator[Item]:
        while not self._accept(end):
            yield read()
            self._accept(",")

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _accept(self, token: str) -> bool:
        matches = self.tokens[self.at] == token
        self.at += matches
        return matches

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(f"{token or 'the end'!r} is missing in signature {self.text!r}")


# -- overload resolution --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResolvedCall(Generic[AnyOverload]):
    """The overload of a call. An argument whose type is not the one in `arguments` must be cast to it.

    For a lambda `arguments` has its body's type, for a unit STRING. `constants` are the positions of the arguments that
    must be literals.
    """

    overload: AnyOverload
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    constants: tuple[int, ...] = ()


def resolve(function: AnyFunction[AnyOverload], arguments: Sequence[Argument]) -> ResolvedCall[AnyOverload]:
    """Returns the overload that fits, the arguments' types after the casts it needs, and the type of the result."""
    fit = _best_fit(function, arguments)
    kinds = tuple(map(_concrete, fit.arguments, fit.parameters, [fit.bound] * len(arguments)))
    constants = tuple(place for place, parameter in enumerate(fit.parameters) if parameter.const)
    return ResolvedCall(fit.overload, kinds, _result(fit, kinds), constants)


def lambda_parameters(function: AnyFunction[Any], arguments: Sequence[Argument]) -> dict[int, tuple[pa.DataType, ...]]:
    """Returns the types of the parameters of each lambda, by the lambda's position among the arguments."""
    fit = _best_fit(function, arguments)
    return {
        place: tuple(inner.fill(fit.bound) for inner in parameter.pattern.parameters)
        for place, parameter in enumerate(fit.parameters)
        if isinstance(parameter.pattern, LambdaOf)
    }


@dataclass(frozen=True)
class _Fit(Generic[AnyOverload]):
    overload: AnyOverload
    signature: Signature
    parameters: tuple[Parameter, ...]
    arguments: tuple[Argument, ...]
    bound: TypeBindings


def _best_fit(function: AnyFunction[AnyOverload], arguments: Sequence[Argument]) -> _Fit[AnyOverload]:
    for widen in (False, True):
        fits = [fit for overload in function.overloads if (fit := _fit(overload, arguments, widen))]
        fits.sort(key=lambda fit: fit.signature.rank, reverse=True)
        if len(fits) > 1 and fits[0].signature.rank == fits[1].signature.rank:
            raise _ambiguous(function, arguments, fits)
        if fits:
            return fits[0]
    raise _unacceptable(function, arguments)


def _fit(overload: AnyOverload, arguments: Sequence[Argument], widen: bool) -> _Fit[AnyOverload] | None:
    signature = parse_signature(overload.signature)
    parameters = signature.spread(len(arguments))
    if parameters is None:
        return None
    bound: TypeBindings = {}
    accepted: list[Argument] = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        kind = _widened(argument, parameter.pattern) if widen else argument
        if not parameter.pattern.accepts(kind, bound):
            return None
        accepted.append(kind)
    return _Fit(overload, signature, parameters, tuple(accepted), bound)


def _widened(argument: Argument, pattern: Pattern) -> Argument:
    """Widens a number to the one that the pattern requires, or text to the date or time it requires."""
    if argument == types.STRING and isinstance(pattern, ExactType) and pattern.type in _TEMPORAL:
        return pattern.type
    if not isinstance(argument, pa.DataType) or not types.is_number(argument):
        return argument
    if isinstance(pattern, AnyDecimal):
        return types.as_decimal(argument)
    if isinstance(pattern, ExactType) and pattern.type != argument:
        return pattern.type if types.wider_number(argument, pattern.type) == pattern.type else argument
    return argument


def _concrete(argument: Argument, parameter: Parameter, bound: TypeBindings) -> pa.DataType:
    if isinstance(argument, pa.DataType) and argument != types.NULL:
        return argument
    return parameter.pattern.fill(bound)


def _result(fit: _Fit[Any], kinds: tuple[pa.DataType, ...]) -> pa.DataType:
    if fit.overload.returns is not None:
        return fit.overload.returns(kinds)
    return fit.signature.result.fill(fit.bound)


def _unacceptable(function: AnyFunction[Any], arguments: Sequence[Argument]) -> WrongArguments:
    return WrongArguments(
        f"Function '{function.name}' does not accept parameters ({_type_list(arguments)}).\nValid alternatives are:\n"
        + _alternatives(function, function.overloads),
        fix="pass arguments of these types, with CAST where needed",
    )


def _ambiguous(function: AnyFunction[Any], arguments: Sequence[Argument], fits: Sequence[_Fit[Any]]) -> AmbiguousCall:
    level = [fit.overload for fit in fits if fit.signature.rank == fits[0].signature.rank]
    return AmbiguousCall(
        f"Function '{function.name}' cannot be resolved due to ambiguous method parameters ({_type_list(arguments)}).\n"
        "It could be any of these:\n" + _alternatives(function, level),
        fix="choose one with CAST(... AS ...)",
    )


def _type_list(arguments: Sequence[Argument]) -> str:
    return ", ".join(map(type_text, arguments))


def _alternatives(function: AnyFunction[Any], overloads: Sequence[Any]) -> str:
    return "\n".join(f"{function.name}{parse_signature(overload.signature)}" for overload in overloads)
