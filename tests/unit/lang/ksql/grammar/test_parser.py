"""Every kind of statement and expression, and the place and text of syntax errors."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal

import pytest

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import parse_expression, parse_one
from headrace.span import Span
from tests.ksql_parsing import parse
from tests.unit.lang.ksql.corpus import cases

STRING, INT = ast.TypeName("STRING"), ast.TypeName("INT")
A, B, X = ast.Name("A"), ast.Name("B"), ast.Name("X")
ONE, TWO = ast.IntegerLiteral(1), ast.IntegerLiteral(2)
STAR = ast.SelectItem(ast.Star())
FROM_S = ast.Query((STAR,), ast.SourceRef("S"))
TOPIC = ast.Property("KAFKA_TOPIC", "t")
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)

STATEMENTS: dict[str, ast.Statement] = {
    "CREATE STREAM s": ast.CreateSource("STREAM", "S"),
    "create or replace source table if not exists s (id STRING PRIMARY KEY, v INT) with (kafka_topic='t')": (
        ast.CreateSource(
            "TABLE",
            "S",
            (ast.Element("ID", STRING, ast.Constraint.PRIMARY_KEY), ast.Element("V", INT)),
            (TOPIC,),
            or_replace=True,
            if_not_exists=True,
            read_only=True,
        )
    ),
    "CREATE STREAM s (k INT KEY, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, x BYTES HEADER('a'))": (
        ast.CreateSource(
            "STREAM",
            "S",
            (
                ast.Element("K", INT, ast.Constraint.KEY),
                ast.Element(
                    "H",
                    ast.ArrayType(ast.StructType((("KEY", STRING), ("VALUE", ast.TypeName("BYTES"))))),
                    ast.Constraint.HEADERS,
                ),
                ast.Element("X", ast.TypeName("BYTES"), ast.Constraint.HEADER, "a"),
            ),
        )
    ),
    "CREATE STREAM s WITH (KEY='a', PARTITIONS=3, WRAP=true, X=NULL, Y=-1.5, 'Z'='q')": ast.CreateSource(
        "STREAM",
        "S",
        properties=tuple(
            ast.Property(name, value)
            for name, value in {
                "KEY": "a",
                "PARTITIONS": 3,
                "WRAP": True,
                "X": None,
                "Y": Decimal("-1.5"),
                "Z": "q",
            }.items()
        ),
    ),
    "CREATE STREAM o WITH (kafka_topic='t') AS SELECT * FROM s": ast.CreateAs("STREAM", "O", FROM_S, (TOPIC,)),
    "CREATE OR REPLACE TABLE IF NOT EXISTS o AS SELECT * FROM s": (
        ast.CreateAs("TABLE", "O", FROM_S, or_replace=True, if_not_exists=True)
    ),
    "INSERT INTO o SELECT * FROM s": ast.InsertInto("O", FROM_S),
    "INSERT INTO o WITH (QUERY_ID='q') SELECT * FROM s": ast.InsertInto("O", FROM_S, (ast.Property("QUERY_ID", "q"),)),
    "INSERT INTO o VALUES (1, 'x')": ast.InsertValues("O", (), (ONE, ast.StringLiteral("x"))),
    "INSERT INTO o (a, `b`) VALUES (1, 2)": ast.InsertValues("O", ("A", "b"), (ONE, TWO)),
    "DELETE FROM o WHERE a = 1": ast.DeleteFrom("O", ast.Comparison("=", A, ONE)),
    "DROP STREAM s": ast.DropSource("STREAM", "S"),
    "DROP TABLE IF EXISTS s DELETE TOPIC": ast.DropSource("TABLE", "S", if_exists=True, delete_topic=True),
    "ALTER STREAM s ADD COLUMN a INT, ADD b STRING": (
        ast.AlterSource("STREAM", "S", (ast.Element("A", INT), ast.Element("B", STRING)))
    ),
    "CREATE TYPE IF NOT EXISTS a AS STRUCT<x INT>": ast.CreateType("A", ast.StructType((("X", INT),)), True),
    "DROP TYPE IF EXISTS a": ast.DropType("A", if_exists=True),
    "SET 'a.b'='c'": ast.SetProperty("a.b", "c"),
    "UNSET 'a.b'": ast.UnsetProperty("a.b"),
    "ALTER SYSTEM 'a'='b'": ast.SetProperty("a", "b", system=True),
    "DEFINE x = 'y'": ast.Define("x", "y"),
    "UNDEFINE x": ast.Undefine("x"),
    "SELECT * FROM s": ast.SelectStatement(FROM_S),
    "DESCRIBE s": ast.Describe("SOURCE", "S"),
    "DESCRIBE s EXTENDED": ast.Describe("SOURCE", "S", extended=True),
    "DESCRIBE EXTENDED s": ast.Describe("SOURCE", "S", extended=True),
    "DESCRIBE FUNCTION abs": ast.Describe("FUNCTION", "ABS"),
    "DESCRIBE CONNECTOR c": ast.Describe("CONNECTOR", "C"),
    "DESCRIBE STREAMS EXTENDED": ast.Describe("STREAMS", extended=True),
    "EXPLAIN CTAS_O_1": ast.Explain("CTAS_O_1"),
    "EXPLAIN SELECT * FROM s": ast.Explain(statement=ast.SelectStatement(FROM_S)),
    "EXPLAIN ANALYZE q": ast.Explain("Q", analyze=True),
    "SHOW STREAMS EXTENDED": ast.Show("STREAMS", extended=True),
    "LIST ALL TOPICS": ast.Show("TOPICS", all=True),
    "SHOW QUERIES": ast.Show("QUERIES"),
    "SHOW FUNCTIONS": ast.Show("FUNCTIONS"),
    "SHOW TYPES": ast.Show("TYPES"),
    "SHOW PROPERTIES": ast.Show("PROPERTIES"),
    "SHOW VARIABLES": ast.Show("VARIABLES"),
    "SHOW SINK CONNECTORS": ast.Show("SINK CONNECTORS"),
    "LIST CONNECTOR PLUGINS": ast.Show("CONNECTOR PLUGINS"),
    "PRINT my_topic": ast.Print("my_topic"),
    "PRINT 'my-topic' FROM BEGINNING INTERVAL 2 LIMIT 3": ast.Print("my-topic", True, 2, 3),
    "TERMINATE q": ast.ControlQuery("TERMINATE", "Q"),
    "PAUSE ALL": ast.ControlQuery("PAUSE"),
    "RESUME q": ast.ControlQuery("RESUME", "Q"),
    "RUN SCRIPT 'a.sql'": ast.RunScript("a.sql"),
    "CREATE SOURCE CONNECTOR IF NOT EXISTS c WITH (\"connector.class\"='x')": (
        ast.CreateConnector("SOURCE", "C", (ast.Property("connector.class", "x"),), if_not_exists=True)
    ),
    "DROP CONNECTOR IF EXISTS c": ast.DropConnector("C", if_exists=True),
    "ASSERT VALUES s (a) VALUES (1)": ast.AssertValues("S", ("A",), (ONE,)),
    "ASSERT NULL VALUES s (a) KEY (1)": ast.AssertValues("S", ("A",), (ONE,), null=True),
    "ASSERT STREAM s (a INT) WITH (kafka_topic='t')": (
        ast.AssertSource("STREAM", "S", (ast.Element("A", INT),), (TOPIC,))
    ),
    "ASSERT TABLE s": ast.AssertSource("TABLE", "S", ()),
    "ASSERT TOPIC Foo WITH (partitions=1) TIMEOUT 1 HOUR": (
        ast.AssertTopic("Foo", (ast.Property("PARTITIONS", 1),), timeout=HOUR)
    ),
    "ASSERT NOT EXISTS TOPIC 'a-b'": ast.AssertTopic("a-b", exists=False),
    "ASSERT SCHEMA SUBJECT 'x' ID 3": ast.AssertSchema("x", 3),
    "ASSERT NOT EXISTS SCHEMA ID 3 TIMEOUT 1 SECOND": ast.AssertSchema(None, 3, exists=False, timeout=SECOND),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement(text: str) -> None:
    assert parse_one(text + ";") == STATEMENTS[text]


S, T = ast.SourceRef("S"), ast.SourceRef("T")
ON = ast.Comparison("=", ast.Name("A", "S"), ast.Name("A", "T"))
QUERIES: dict[str, ast.Query] = {
    "SELECT a, b AS c, 1 d, s.*, a->* FROM s": ast.Query(
        (
            ast.SelectItem(A),
            ast.SelectItem(B, "C"),
            ast.SelectItem(ONE, "D"),
            ast.SelectItem(ast.Star("S")),
            ast.SelectItem(ast.StructStar(A)),
        ),
        S,
    ),
    "SELECT * FROM s WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 DAY, GRACE PERIOD 1 SECOND) WHERE a = 1 GROUP BY a, b "
    "HAVING a = 1 EMIT FINAL LIMIT 2": ast.Query(
        (STAR,),
        S,
        ast.WindowClause("TUMBLING", HOUR, retention=DAY, grace=SECOND),
        where=ast.Comparison("=", A, ONE),
        group_by=(A, B),
        having=ast.Comparison("=", A, ONE),
        emit=ast.Emit.FINAL,
        limit=2,
    ),
    "SELECT * FROM s WINDOW w HOPPING (SIZE 1 HOUR, ADVANCE BY 1 SECONDS) GROUP BY (a, b)": ast.Query(
        (STAR,), S, ast.WindowClause("HOPPING", HOUR, SECOND, name="W"), group_by=(A, B)
    ),
    "SELECT * FROM s WINDOW SESSION (1 HOUR) GROUP BY (a)": (
        ast.Query((STAR,), S, ast.WindowClause("SESSION", HOUR), group_by=(A,))
    ),
    "SELECT * FROM s PARTITION BY a, b EMIT CHANGES": (
        ast.Query((STAR,), S, partition_by=(A, B), emit=ast.Emit.CHANGES)
    ),
    "SELECT * FROM s ORDER BY a DESC, b ASC": (
        ast.Query((STAR,), S, order_by=(ast.OrderItem(A, True), ast.OrderItem(B)))
    ),
    "SELECT * FROM s UNION ALL SELECT * FROM t LIMIT 1": (
        ast.Query((STAR,), S, union=(ast.Query((STAR,), T, limit=1),))
    ),
    "SELECT DISTINCT a FROM s": ast.Query((ast.SelectItem(A),), S, distinct=ast.Distinct()),
    "SELECT DISTINCT ON (a, b) * FROM s": ast.Query((STAR,), S, distinct=ast.Distinct((A, B))),
    "SELECT * FROM s UNION ALL SELECT DISTINCT * FROM t": (
        ast.Query((STAR,), S, union=(ast.Query((STAR,), T, distinct=ast.Distinct()),))
    ),
    "SELECT * FROM (SELECT * FROM s) AS x": ast.Query((STAR,), ast.SubqueryRef(FROM_S, "X")),
    "SELECT * FROM s JOIN t ON s.a = t.a": ast.Query((STAR,), ast.Join(S, T, "INNER", ON)),
    "SELECT * FROM s x FULL OUTER JOIN t AS y WITHIN 1 HOUR GRACE PERIOD 1 DAY ON s.a = t.a": ast.Query(
        (STAR,),
        ast.Join(ast.SourceRef("S", "X"), ast.SourceRef("T", "Y"), "FULL", ON, ast.Within(HOUR, HOUR, DAY)),
    ),
    "SELECT * FROM s LEFT JOIN t WITHIN (1 SECOND, 1 HOUR) ON s.a = t.a RIGHT OUTER JOIN t ON s.a = t.a": ast.Query(
        (STAR,), ast.Join(ast.Join(S, T, "LEFT", ON, ast.Within(SECOND, HOUR)), T, "RIGHT", ON)
    ),
}


@pytest.mark.parametrize("text", QUERIES)
def test_query(text: str) -> None:
    assert parse_one(text) == ast.SelectStatement(QUERIES[text])


def _op(op: str, left: ast.Expr, right: ast.Expr) -> ast.Arithmetic:
    return ast.Arithmetic(op, left, right)


EXPRESSIONS: dict[str, ast.Expr] = {
    "a OR b AND NOT x": ast.Logical("OR", A, ast.Logical("AND", B, ast.Not(X))),
    "a + b * x - 1": _op("-", _op("+", A, _op("*", B, X)), ONE),
    "(a + b) * x": _op("*", _op("+", A, B), X),
    "a || b + x": _op("||", A, _op("+", B, X)),
    "-a * b": _op("*", ast.Unary("-", A), B),
    "a -1": _op("-", A, ONE),
    "-9223372036854775808": ast.IntegerLiteral(-(2**63)),
    "1.50": ast.DecimalLiteral(Decimal("1.50")),
    "-1.5E3": ast.DoubleLiteral(-1500.0),
    "a != 1": ast.Comparison("<>", A, ONE),
    "a IS NOT DISTINCT FROM b": ast.Comparison("IS NOT DISTINCT FROM", A, B),
    "a NOT BETWEEN 1 AND 2 AND b": ast.Logical("AND", ast.Between(A, ONE, TWO, True), B),
    "a NOT IN (1, 2)": ast.InList(A, (ONE, TWO), True),
    "a LIKE 'it''s' ESCAPE '!'": ast.Like(A, ast.StringLiteral("it's"), "!"),
    "a IS NOT NULL": ast.IsNull(A, True),
    "CASE WHEN a THEN 1 ELSE 2 END": ast.Case(None, ((A, ONE),), TWO),
    "CASE a WHEN 1 THEN 2 END": ast.Case(A, ((ONE, TWO),)),
    "CAST(a AS DECIMAL(4, 2))": ast.Cast(A, ast.TypeName("DECIMAL", (4, 2))),
    "CAST(a AS MAP<STRING, ARRAY<INT>>)": ast.Cast(A, ast.MapType(STRING, ast.ArrayType(INT))),
    "ARRAY[1, 2][1]": ast.Subscript(ast.ArrayMaker((ONE, TWO)), ONE),
    "MAP('k' := 1)": ast.MapMaker(((ast.StringLiteral("k"), ONE),)),
    "STRUCT(a := 1, `b` := 2)": ast.StructMaker((("A", ONE), ("b", TWO))),
    "s.a->b->x": ast.Dereference(ast.Dereference(ast.Name("A", "S"), "B"), "X"),
    "DATE '2026-01-31'": ast.TypedLiteral("DATE", "2026-01-31"),
    "a AT TIME ZONE 'UTC'": ast.AtTimeZone(A, "UTC"),
    "COUNT(*)": ast.Call("COUNT", (ast.Star(),)),
    "NOW()": ast.Call("NOW"),
    "TIMESTAMPADD(HOURS, 1, a)": ast.Call("TIMESTAMPADD", (ast.Unit("HOUR"), ONE, A)),
    "ABS(days)": ast.Call("ABS", (ast.Name("DAYS"),)),
    "F(a, x => x + 1)": ast.Call("F", (A, ast.Lambda(("X",), _op("+", X, ONE)))),
    "F(a, (x) => x, (a, b) => a)": ast.Call("F", (A, ast.Lambda(("X",), X), ast.Lambda(("A", "B"), A))),
    "TRUE = NULL": ast.Comparison("=", ast.BooleanLiteral(True), ast.NullLiteral()),
    '`a``b` = "C""d"': ast.Comparison("=", ast.Name("a`b"), ast.Name('C"d')),
    "/* one */ a -- two": A,
    "1r": ast.Name("1R"),
    "map + array": _op("+", ast.Name("MAP"), ast.Name("ARRAY")),
    "replace(type, key, value)": ast.Call("REPLACE", (ast.Name("TYPE"), ast.Name("KEY"), ast.Name("VALUE"))),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text: str) -> None:
    assert parse_expression(text) == EXPRESSIONS[text]


NAMES = (
    "type key value values time date timestamp headers header source sink stream tables variables partition id at day"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_a_keyword_is_a_name_where_the_keyword_is_not_allowed(name: str) -> None:
    folded = name.upper()
    created = parse_one(f"CREATE STREAM s ({name} INT KEY, x INT)")
    assert isinstance(created, ast.CreateSource)
    assert created.elements[0].name == folded
    selected = parse_one(f"SELECT {name}, s.{name}, 1 {name}, ABS({name}) AS {name} FROM {name} WHERE {name} = 1")
    assert isinstance(selected, ast.SelectStatement)
    assert [item.alias for item in selected.query.select] == [None, None, folded, folded]


ERRORS: dict[str, tuple[str, str, int]] = {
    "SELECT 'abc FROM s": ("a string is not closed", "close it", 8),
    "SELECT a# FROM s;": ('"#"', "backticks", 9),
    "SELECT 9223372036854775808 FROM s;": ("Invalid numeric literal: 9223372036854775808", "DECIMAL", 8),
    "SELECT -1E999 FROM s;": ("Number overflows DOUBLE: -1E999", "DECIMAL", 8),
    "SELECT * FROM s GROUP BY a WHERE b;": ("WHERE appears after GROUP BY", "before GROUP BY", 28),
    "SELECT * FROM s WHERE a WHERE b;": ("WHERE appears twice", "remove one", 25),
    "SELECT MONEY '3' FROM s;": ('"MONEY"', "CAST", 8),
    "SELECT ${x} FROM s;": ('variable "x" is not defined', "DEFINE x", 8),
    "SELECT * FROM s WINDOW SESSION (99999999999999 DAYS);": ("too long", "shorter", 33),
    ";": ("no statement", "remove", 1),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error(text: str) -> None:
    what, fix, column = ERRORS[text]
    [error] = parse(text, name="a.ksql").errors
    assert what in error.what
    assert fix in (error.fix or "")
    assert error.where == f"a.ksql:1:{column}"
    assert f"    {text}\n    {' ' * (column - 1)}^" in str(error)


def test_all_errors_of_a_script_are_found_and_the_rest_is_parsed() -> None:
    parsed = parse("SELECT a FROM;\n\nSHOW STREAMS;\n  CREAT x;\nSHOW TABLES")
    assert [error.where for error in parsed.errors] == ["line 1:14", "line 4:3"]
    assert parsed.statements == [(ast.Show("STREAMS"), "SHOW STREAMS;"), (ast.Show("TABLES"), "SHOW TABLES")]


def test_error_positions_count_in_the_whole_text() -> None:
    text = "SHOW STREAMS;\n-- why\n  DROP STREAM s;"
    statement = parse(text).statements[1][0]
    assert statement.span == Span(text.index("DROP"), len(text) - 1, 3, 3)


def test_an_error_survives_pickling() -> None:
    [error] = parse("CREAT x", name="a.ksql").errors
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.span) == (str(error), error.span)


def test_variables() -> None:
    script = "DEFINE t = 'orders'; DEFINE n = '3'; CREATE STREAM ${t} WITH (kafka_topic='x-${t}', partitions=${n});"
    statement, text = parse(script).statements[2]
    topic, partitions = ast.Property("KAFKA_TOPIC", "x-orders"), ast.Property("PARTITIONS", 3)
    assert statement == ast.CreateSource("STREAM", "ORDERS", properties=(topic, partitions))
    assert text == "CREATE STREAM orders WITH (kafka_topic='x-orders', partitions=3);"


def test_variables_can_be_undefined_and_passed_in() -> None:
    assert parse("DROP STREAM ${s};", variables={"s": "a"}).statements[0][0] == ast.DropSource("STREAM", "A")
    assert len(parse("UNDEFINE s; DROP STREAM ${s};", variables={"s": "a"}).errors) == 1
    assert len(parse("DROP STREAM ${s};", variables={"s": "a; DROP STREAM b"}).errors) == 1


def test_parse_one_refuses_two_statements() -> None:
    with pytest.raises(KsqlSyntaxError, match="one statement"):
        parse_one("SHOW STREAMS; SHOW TABLES;")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(KsqlSyntaxError, match="nested"):
        parse_expression(" + ".join(["a"] * 5000))
    assert parse_expression("(" * 5000 + "a" + ")" * 5000) == A


def test_the_corpus_is_accepted_and_refused_as_by_ksqldb() -> None:
    wrong = [(id_, parsed.errors) for id_, text, refused in cases() if bool((parsed := parse(text)).errors) != refused]
    assert wrong == []
