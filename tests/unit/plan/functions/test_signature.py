import pyarrow as pa
import pytest

from headrace.errors import AmbiguousCall, WrongArguments
from headrace.plan.functions import AGGREGATES, SCALARS, find, unknown_function
from headrace.plan.functions.declaration import Function, Overload
from headrace.plan.functions.signature import (
    UNIT,
    LambdaType,
    lambda_parameters,
    parse_signature,
    resolve,
    type_text,
)
from headrace.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, array, decimal, map_of, struct


def function(*signatures: str) -> Function:
    return Function("F", "", tuple(Overload(signature, lambda *values: values) for signature in signatures))


def chosen(*arguments: pa.DataType | LambdaType, of: Function) -> str:
    return resolve(of, arguments).overload.signature


NUMBERS = function(*(f"(first: {kind}, more: {kind}...) -> {kind}" for kind in ("int", "bigint", "decimal", "double")))
LISTS = function(
    "(list: array<T>, keep: lambda(T) -> boolean) -> array<T>",
    "(map: map<K, V>, keep: lambda(K, V) -> boolean) -> map<K, V>",
)


# -- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("() -> double", "()"),
        ("(text: string, length: int) -> string", "(STRING text, INTEGER length)"),
        ("(first: T, more: T...) -> T", "(T first, T... more)"),
        ("(of: map<string, array<V>>) -> V", "(MAP<STRING, ARRAY<V>> of)"),
        ("(of: struct<K: string, V: T>, n: const int) -> any", "(STRUCT<K STRING, V T> of, INTEGER n)"),
        ("(by: unit, f: lambda(S, T) -> S) -> decimal(4, 2)", "(UNIT by, LAMBDA (S, T) => S f)"),
    ],
)
def test_a_signature_is_parsed(text: str, shown: str) -> None:
    assert str(parse_signature(text)) == shown


@pytest.mark.parametrize("text", ["(a: strang) -> int", "(a: int)", "a: int -> int", "(a: int) -> int int"])
def test_an_invalid_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="signature"):
        parse_signature(text)


def test_every_declared_signature_is_parsed() -> None:
    for declared in (*SCALARS.values(), *AGGREGATES.values()):
        for overload in declared.overloads:
            parse_signature(overload.signature)


# -- choosing -------------------------------------------------------------------------------------------------------


def test_an_exact_match_takes_precedence_over_a_cast() -> None:
    assert chosen(BIGINT, BIGINT, of=NUMBERS).startswith("(first: bigint")
    assert chosen(DOUBLE, INT, of=NUMBERS).startswith("(first: double")


def test_null_matches_every_parameter_and_takes_its_type() -> None:
    resolved = resolve(NUMBERS, [INT, NULL])
    assert resolved.arguments == (INT, INT)
    assert resolved.result == INT


@pytest.mark.parametrize("arguments", [(INT, BIGINT), (INT, BIGINT, decimal(50, 30)), (NULL, NULL)])
def test_a_tie_is_ambiguous(arguments: tuple[pa.DataType, ...]) -> None:
    with pytest.raises(AmbiguousCall, match="cannot be resolved due to ambiguous method parameters"):
        resolve(NUMBERS, arguments)


@pytest.mark.parametrize(
    ("argument", "wanted", "becomes"),
    [
        (INT, "bigint", BIGINT),
        (INT, "double", DOUBLE),
        (BIGINT, "double", DOUBLE),
        (decimal(4, 2), "double", DOUBLE),
        (INT, "decimal", decimal(10, 0)),
        (BIGINT, "decimal", decimal(19, 0)),
        (decimal(4, 2), "decimal", decimal(4, 2)),
    ],
)
def test_numbers_are_widened(argument: pa.DataType, wanted: str, becomes: pa.DataType) -> None:
    assert resolve(function(f"(value: {wanted}) -> {wanted}"), [argument]).arguments == (becomes,)


@pytest.mark.parametrize(
    ("argument", "wanted"), [(BIGINT, "int"), (DOUBLE, "decimal"), (STRING, "int"), (INT, "string"), (INT, "boolean")]
)
def test_nothing_else_is_cast(argument: pa.DataType, wanted: str) -> None:
    with pytest.raises(WrongArguments):
        resolve(function(f"(value: {wanted}) -> {wanted}"), [argument])


def test_overloads_prefer_fixed_arity_then_more_parameters_then_fewer_type_variables() -> None:
    assert chosen(INT, of=function("(a: int...) -> int", "(a: int) -> int")) == "(a: int) -> int"
    assert chosen(INT, INT, of=function("(a: int...) -> int", "(a: int, b: int...) -> int")).startswith("(a: int, b")
    assert chosen(INT, of=function("(a: T) -> T", "(a: int) -> int")) == "(a: int) -> int"
    assert chosen(STRING, of=function("(a: any) -> int", "(a: string) -> int")) == "(a: string) -> int"


def test_type_variables_are_bound_consistently() -> None:
    both = function("(a: T, b: array<T>) -> map<string, T>")
    assert resolve(both, [INT, array(INT)]).result == map_of(STRING, INT)
    assert resolve(both, [NULL, array(INT)]).arguments == (INT, array(INT))
    with pytest.raises(WrongArguments):
        resolve(both, [INT, array(STRING)])


def test_a_variadic_parameter_may_be_in_the_middle() -> None:
    middle = function("(first: bigint, more: string..., last: const int) -> bigint")
    resolved = resolve(middle, [BIGINT, STRING, STRING, INT])
    assert resolved.constants == (3,)
    assert resolve(middle, [BIGINT, INT]).constants == (1,)
    with pytest.raises(WrongArguments):
        resolve(middle, [BIGINT])


def test_decimals_of_any_size_match_and_the_first_is_the_result() -> None:
    assert resolve(NUMBERS, [decimal(4, 2), decimal(5, 1)]).result == decimal(4, 2)
    assert resolve(function("(list: array<decimal>) -> decimal"), [array(decimal(3, 1))]).result == decimal(3, 1)


def test_returns_computes_the_result_from_the_cast_types() -> None:
    typed = Function("F", "", (Overload("(a: bigint, b: T) -> any", print, returns=lambda kinds: array(kinds[0])),))
    assert resolve(typed, [INT, STRING]).result == array(BIGINT)


def test_an_interval_unit_is_a_string_in_the_plan() -> None:
    add = function("(by: unit, count: int, to: date) -> date")
    assert resolve(add, [UNIT, INT, DATE]).arguments == (STRING, INT, DATE)
    with pytest.raises(WrongArguments, match=r"\(DATE, INTEGER, DATE\)"):
        resolve(add, [DATE, INT, DATE])


# -- lambdas --------------------------------------------------------------------------------------------------------


def test_types_of_lambda_parameters_are_inferred_first() -> None:
    assert lambda_parameters(LISTS, [array(INT), LambdaType(1)]) == {1: (INT,)}
    assert lambda_parameters(LISTS, [map_of(STRING, INT), LambdaType(2)]) == {1: (STRING, INT)}


def test_the_body_of_a_lambda_binds_type_variables() -> None:
    transform = function("(list: array<T>, f: lambda(T) -> R) -> array<R>")
    resolved = resolve(transform, [array(INT), LambdaType(1, STRING)])
    assert (resolved.result, resolved.arguments) == (array(STRING), (array(INT), STRING))
    reduce = function("(list: array<T>, state: S, f: lambda(S, T) -> S) -> S")
    assert lambda_parameters(reduce, [array(INT), STRING, LambdaType(2)]) == {2: (STRING, INT)}
    with pytest.raises(WrongArguments):
        resolve(reduce, [array(INT), STRING, LambdaType(2, BOOLEAN)])


@pytest.mark.parametrize("lambda_", [LambdaType(3), LambdaType(1, STRING)], ids=["parameters", "result"])
def test_a_lambda_of_the_wrong_shape_is_refused(lambda_: LambdaType) -> None:
    with pytest.raises(WrongArguments, match=r"\(ARRAY<INTEGER>, LAMBDA\)"):
        resolve(LISTS, [array(INT), lambda_])


# -- saying ---------------------------------------------------------------------------------------------------------


def test_a_refusal_lists_the_alternatives() -> None:
    with pytest.raises(WrongArguments) as refused:
        resolve(NUMBERS, [STRING, INT])
    assert "Function 'F' does not accept parameters (STRING, INTEGER)." in refused.value.what
    assert "F(BIGINT first, BIGINT... more)" in refused.value.what


def test_types_are_shown_as_in_sql() -> None:
    kind = struct([("a", map_of(STRING, array(decimal(4, 2))))])
    assert type_text(kind) == "STRUCT<`a` MAP<STRING, ARRAY<DECIMAL(4, 2)>>>"


def test_functions_are_found_in_any_case() -> None:
    assert find("ucase") is find("UCase") is SCALARS["UCASE"]
    assert find("nothing_like_it") is None
    assert unknown_function("UCAS").fix == 'did you mean "UCASE"?'
