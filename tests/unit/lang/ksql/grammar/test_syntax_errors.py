"""Typical syntax errors and their exact messages."""

from __future__ import annotations

import re

import pytest

from tests.ksql_parsing import parse

MESSAGES = """\
syntax-error: unexpected "FORM" after "SELECT *"
  at line 1:10
    SELECT * FORM s;
             ^^^^
  fix: did you mean FROM?
syntax-error: unexpected "FORM" after "SELECT a"
  at line 1:10
    SELECT a FORM s;
             ^^^^
  fix: did you mean FROM?
syntax-error: unexpected "SELCT"
  at line 1:1
    SELCT * FROM s;
    ^^^^^
  fix: did you mean SELECT?
syntax-error: unexpected "CREAT"
  at line 1:1
    CREAT STREAM s (a INT) WITH (KAFKA_TOPIC='t');
    ^^^^^
  fix: did you mean CREATE?
syntax-error: unexpected "STRAM" after "CREATE"
  at line 1:8
    CREATE STRAM s (a INT) WITH (KAFKA_TOPIC='t');
           ^^^^^
  fix: did you mean STREAM?
syntax-error: unexpected "KEYS" after "a INT"
  at line 1:24
    CREATE STREAM s (a INT KEYS, b INT) WITH (KAFKA_TOPIC='t');
                           ^^^^
  fix: did you mean KEY?
syntax-error: unexpected "b" after "a INT"
  at line 1:24
    CREATE STREAM s (a INT b INT) WITH (KAFKA_TOPIC='t');
                           ^
  fix: add "," before "b"
syntax-error: unexpected ")" after "INT,"
  at line 1:24
    CREATE STREAM s (a INT,) WITH (KAFKA_TOPIC='t');
                           ^
  fix: remove the "," before ")"
syntax-error: unexpected "WITH" after "a INT"
  at line 1:24
    CREATE STREAM s (a INT WITH (KAFKA_TOPIC='t', FORMAT='JSON');
                           ^^^^
  fix: add ")" before "WITH"
syntax-error: unexpected "WHIT" after "INT)"
  at line 1:25
    CREATE STREAM s (a INT) WHIT (KAFKA_TOPIC='t');
                            ^^^^
  fix: did you mean WITH?
syntax-error: unexpected "t" after "KAFKA_TOPIC="
  at line 1:43
    CREATE STREAM s (a INT) WITH (KAFKA_TOPIC="t");
                                              ^^^
  fix: write a string in single quotes: 't'
syntax-error: unexpected "t" after "(KAFKA_TOPIC"
  at line 1:43
    CREATE STREAM s (a INT) WITH (KAFKA_TOPIC t);
                                              ^
  fix: write "=" here
syntax-error: unexpected "(" after "INT)"
  at line 1:25
    CREATE STREAM s (a INT) (KAFKA_TOPIC='t');
                            ^
  fix: add WITH before "("
syntax-error: unexpected "s" after "CREATE"
  at line 1:8
    CREATE s (a INT) WITH (KAFKA_TOPIC='t');
           ^
  fix: add STREAM or TABLE before "s"
syntax-error: unexpected "SELECT" after "STREAM o"
  at line 1:17
    CREATE STREAM o SELECT * FROM s;
                    ^^^^^^
  fix: add AS before "SELECT"
syntax-error: unexpected "(" after "CREATE STREAM"
  at line 1:15
    CREATE STREAM (a INT);
                  ^
  fix: write a name here
syntax-error: unexpected "FROM" after "SELECT"
  at line 1:8
    SELECT FROM s;
           ^^^^
  fix: write a column name, an expression or * here
syntax-error: unexpected "FROM" after "a,"
  at line 1:11
    SELECT a, FROM s;
              ^^^^
  fix: remove the "," before "FROM"
syntax-error: unexpected "c" after "a b"
  at line 1:12
    SELECT a b c FROM s;
               ^
  fix: add "," before "c"
syntax-error: unexpected "s" after "SELECT *"
  at line 1:10
    SELECT * s;
             ^
  fix: add FROM before "s"
syntax-error: unexpected "WERE" after "FROM s"
  at line 1:17
    SELECT * FROM s WERE a = 1;
                    ^^^^
  fix: did you mean WHERE?
syntax-error: the statement ends too early after "s WHERE"
  at line 1:22
    SELECT * FROM s WHERE;
                         ^
  fix: write an expression here
syntax-error: unexpected "=" after "a ="
  at line 1:26
    SELECT * FROM s WHERE a == 1;
                             ^
  fix: remove "="
syntax-error: unexpected "LIK" after "WHERE a"
  at line 1:25
    SELECT * FROM s WHERE a LIK 'x';
                            ^^^
  fix: did you mean LIKE?
syntax-error: unexpected "5" after "a NOT"
  at line 1:29
    SELECT * FROM s WHERE a NOT 5;
                                ^
  fix: write BETWEEN, IN or LIKE here
syntax-error: the statement ends too early after "BETWEEN 1"
  at line 1:34
    SELECT * FROM s WHERE a BETWEEN 1;
                                     ^
  fix: write AND or an operator here
syntax-error: unexpected "CHANGE" after "1 EMIT"
  at line 1:34
    SELECT * FROM s WHERE a = 1 EMIT CHANGE;
                                     ^^^^^^
  fix: did you mean CHANGES?
syntax-error: the statement ends too early after "s EMIT"
  at line 1:21
    SELECT * FROM s EMIT;
                        ^
  fix: add CHANGES or FINAL at the end
syntax-error: unexpected "a" after "s GROUP"
  at line 1:33
    SELECT a, COUNT(*) FROM s GROUP a EMIT CHANGES;
                                    ^
  fix: add BY before "a"
syntax-error: unexpected "GROOP" after "FROM s"
  at line 1:27
    SELECT a, COUNT(*) FROM s GROOP BY a EMIT CHANGES;
                              ^^^^^
  fix: did you mean GROUP?
syntax-error: unexpected "FROM" after "(*"
  at line 1:19
    SELECT a, COUNT(* FROM s GROUP BY a;
                      ^^^^
  fix: add ")" before "FROM"
syntax-error: unexpected ")" after "*)"
  at line 1:19
    SELECT a, COUNT(*)) FROM s GROUP BY a;
                      ^
  fix: remove ")"
syntax-error: unexpected "HAVIN" after "BY a"
  at line 1:28
    SELECT a FROM s GROUP BY a HAVIN COUNT(*) > 1;
                               ^^^^^
  fix: did you mean HAVING?
syntax-error: unexpected "TUMBLE" after "s WINDOW"
  at line 1:24
    SELECT a FROM s WINDOW TUMBLE (SIZE 1 HOUR) GROUP BY a;
                           ^^^^^^
  fix: did you mean TUMBLING?
syntax-error: unexpected "1" after "TUMBLING ("
  at line 1:34
    SELECT a FROM s WINDOW TUMBLING (1 HOUR) GROUP BY a;
                                     ^
  fix: add SIZE before "1"
syntax-error: unexpected ")" after "SIZE 1"
  at line 1:40
    SELECT a FROM s WINDOW TUMBLING (SIZE 1) GROUP BY a;
                                           ^
  fix: write a unit of time (SECONDS, MINUTES ...) here
syntax-error: unexpected "HUOR" after "SIZE 1"
  at line 1:41
    SELECT a FROM s WINDOW TUMBLING (SIZE 1 HUOR) GROUP BY a;
                                            ^^^^
  fix: did you mean HOUR?
syntax-error: unexpected "ten" after "s LIMIT"
  at line 1:23
    SELECT * FROM s LIMIT ten;
                          ^^^
  fix: write an integer here
syntax-error: the statement ends too early after "s LIMIT"
  at line 1:22
    SELECT * FROM s LIMIT;
                         ^
  fix: write an integer here
syntax-error: unexpected "a" after "1 HOUR"
  at line 1:38
    SELECT * FROM a JOIN b WITHIN 1 HOUR a.x = b.x;
                                         ^
  fix: add ON before "a"
syntax-error: unexpected "ONE" after "JOIN b"
  at line 1:24
    SELECT * FROM a JOIN b ONE a.x = b.x;
                           ^^^
  fix: did you mean ON?
syntax-error: unexpected "b" after "a LEFT"
  at line 1:22
    SELECT * FROM a LEFT b ON a.x = b.x;
                         ^
  fix: add JOIN before "b"
syntax-error: unexpected "group" after "SELECT"
  at line 1:8
    SELECT group FROM s;
           ^^^^^
  fix: GROUP is a reserved keyword; write `GROUP` to use it as a name
syntax-error: unexpected "FROM" after "THEN 2"
  at line 1:29
    SELECT CASE a WHEN 1 THEN 2 FROM s;
                                ^^^^
  fix: add END before "FROM"
syntax-error: unexpected "INT" after "(a"
  at line 1:15
    SELECT CAST(a INT) FROM s;
                  ^^^
  fix: add AS before "INT"
syntax-error: unexpected ")" after "a AS"
  at line 1:17
    SELECT CAST(a AS) FROM s;
                    ^
  fix: write a type here
syntax-error: unexpected "FROM" after "a +"
  at line 1:12
    SELECT a + FROM s;
               ^^^^
  fix: write an expression here
syntax-error: unexpected "FROM" after "[1"
  at line 1:12
    SELECT a[1 FROM s;
               ^^^^
  fix: add "]" before "FROM"
syntax-error: unexpected "s" after "INSERT"
  at line 1:8
    INSERT s VALUES (1);
           ^
  fix: add INTO before "s"
syntax-error: unexpected "VALUE" after "INTO s"
  at line 1:15
    INSERT INTO s VALUE (1);
                  ^^^^^
  fix: did you mean VALUES?
syntax-error: unexpected "(" after "b)"
  at line 1:22
    INSERT INTO s (a, b) (1, 2);
                         ^
  fix: add VALUES before "("
syntax-error: unexpected "1" after "s VALUES"
  at line 1:22
    INSERT INTO s VALUES 1, 2;
                         ^
  fix: add "(" before "1"
syntax-error: unexpected "s" after "DROP"
  at line 1:6
    DROP s;
         ^
  fix: write ALERT, CONNECTOR, NOTIFIER, STREAM, TABLE or TYPE here
syntax-error: unexpected "STREEM" after "DROP"
  at line 1:6
    DROP STREEM s;
         ^^^^^^
  fix: did you mean STREAM?
syntax-error: unexpected "STREAM" after "SHOW"
  at line 1:6
    SHOW STREAM;
         ^^^^^^
  fix: did you mean STREAMS?
syntax-error: the statement ends too early after "SHOW"
  at line 1:5
    SHOW;
        ^
  fix: write STREAMS, TABLES, TOPICS, QUERIES, PROCESSES, FUNCTIONS, TYPES, ALERTS, NOTIFIERS, PROPERTIES \
or VARIABLES here
syntax-error: the statement ends too early after "DESCRIBE"
  at line 1:9
    DESCRIBE;
            ^
  fix: write a name, ALERT, CONNECTOR, EXTENDED, FUNCTION, STREAMS or TABLES here
syntax-error: the statement ends too early after "TERMINATE"
  at line 1:10
    TERMINATE;
             ^
  fix: write a name or ALL here
syntax-error: unexpected "auto" after "SET"
  at line 1:5
    SET auto.offset.reset = 'earliest';
        ^^^^
  fix: write a string in single quotes: 'auto.offset.reset'
syntax-error: unexpected "SELECT" after "EMIT CHANGES"
  at line 1:30
    SELECT * FROM s EMIT CHANGES SELECT * FROM t;
                                 ^^^^^^
  fix: add ";" before "SELECT"
syntax-error: unexpected "x" after "KAFKA_TOPIC ="
  at line 1:45
    CREATE STREAM s (a INT) WITH (KAFKA_TOPIC = x, VALUE_FORMAT = 'JSON');
                                                ^
  fix: write a string in single quotes: 'x'
syntax-error: unexpected 'b' after "SET 'a'"
  at line 1:9
    SET 'a' 'b';
            ^^^
  fix: add "=" before 'b'
syntax-error: unexpected "UPDATE"
  at line 1:1
    UPDATE s SET a = 1;
    ^^^^^^
  fix: write a statement (CREATE, SELECT, INSERT ...) here
syntax-error: unexpected "s" after "DELETE"
  at line 1:8
    DELETE s WHERE a = 1;
           ^
  fix: add FROM before "s"
syntax-error: the statement ends too early after "PRINT"
  at line 1:6
    PRINT;
         ^
  fix: write a name or a string in single quotes here
syntax-error: unexpected "BEGINING" after "t FROM"
  at line 1:14
    PRINT t FROM BEGINING;
                 ^^^^^^^^
  fix: did you mean BEGINNING?
syntax-error: the statement ends too early after "EXPLAIN"
  at line 1:8
    EXPLAIN;
           ^
  fix: write a statement (CREATE, SELECT, INSERT ...), a name or ANALYZE here
syntax-error: unexpected "STRUCT" after "TYPE t"
  at line 1:15
    CREATE TYPE t STRUCT<a INT>;
                  ^^^^^^
  fix: add AS before "STRUCT"
syntax-error: unexpected "WHERE" after "ON s"
  at line 1:21
    CREATE ALERT a ON s WHERE x > 1;
                        ^^^^^
  fix: write an alias, FOR or WHEN here
syntax-error: unexpected "x" after "s ORDER"
  at line 1:23
    SELECT * FROM s ORDER x;
                          ^
  fix: add BY before "x"
syntax-error: a string is not closed
  at line 1:8
    SELECT 'abc FROM s;
           ^^^^^^^^^^^
  fix: close it
syntax-error: unexpected character "#"
  at line 1:10
    SELECT a # b FROM s;
             ^
  fix: remove it, or put the name that contains it in backticks
syntax-error: unexpected "left" after "SELECT"
  at line 1:8
    SELECT left FROM s;
           ^^^^
  fix: LEFT is a reserved keyword; write `LEFT` to use it as a name
syntax-error: unexpected "NULL" after "a AS"
  at line 1:18
    SELECT CAST(a AS NULL) FROM s;
                     ^^^^
  fix: write a type here
syntax-error: unexpected "KEY" after "DOUBLE ("
  at line 1:28
    CREATE STREAM s (a DOUBLE (KEY));
                               ^^^
  fix: write an integer or STRING here
syntax-error: unexpected "(" after "STRING)"
  at line 1:36
    CREATE STREAM s (a VARCHAR(STRING) (KEY));
                                       ^
  fix: write HEADER, HEADERS, KEY, PRIMARY, ")" or "," here
syntax-error: unexpected "AND" after "BY a"
  at line 1:28
    SELECT * FROM s GROUP BY a AND b;
                               ^^^
  fix: write a clause (WHERE, GROUP BY, EMIT ...), ",", an operator or the end of the statement here
syntax-error: unexpected "," after "(b"
  at line 1:31
    SELECT * FROM s GROUP BY a, (b, x);
                                  ^
  fix: write ")" or an operator here
syntax-error: unexpected ")" after "IN ("
  at line 1:29
    SELECT * FROM s WHERE a IN ();
                                ^
  fix: write an expression here
syntax-error: unexpected "a" after "F("
  at line 1:17
    SELECT * FROM F(a);
                    ^
  fix: add TABLE before "a"
syntax-error: the statement ends too early after "SELECT"
  at line 1:7
    SELECT
          ^
  fix: write a column name, an expression or * here
syntax-error: unexpected "FROM" after "a AS"
  at line 1:13
    SELECT a AS FROM s;
                ^^^^
  fix: write a name here
syntax-error: unexpected "b" after "> 1"
  at line 1:29
    SELECT * FROM s WHERE a > 1 b < 2;
                                ^
  fix: add AND or OR before "b"
syntax-error: unexpected "LIMTI" after "EMIT CHANGES"
  at line 1:30
    SELECT * FROM s EMIT CHANGES LIMTI 3;
                                 ^^^^^
  fix: did you mean LIMIT?
syntax-error: unexpected "CHNGES" after "a EMIT"
  at line 1:63
    CREATE TABLE t AS SELECT a, COUNT(*) c FROM s GROUP BY a EMIT CHNGES;
                                                                  ^^^^^^
  fix: did you mean CHANGES?
syntax-error: unexpected "." after ".b"
  at line 1:11
    SELECT a.b.c FROM s;
              ^
  fix: remove "."
syntax-error: unexpected 'y' after "= 'x'"
  at line 1:31
    SELECT * FROM s WHERE a = 'x' 'y';
                                  ^^^
  fix: add AND or OR before 'y'
syntax-error: the statement ends too early after "FROM s"
  at line 1:31
    SELECT * FROM (SELECT a FROM s;
                                  ^
  fix: add ")" at the end
syntax-error: unexpected "s3" after "s s2"
  at line 1:20
    SELECT * FROM s s2 s3;
                       ^^
  fix: remove "s3"
syntax-error: unexpected "KAFKA_TOPIC" after ") WITH"
  at line 1:30
    CREATE STREAM s (a INT) WITH KAFKA_TOPIC='t';
                                 ^^^^^^^^^^^
  fix: add "(" before "KAFKA_TOPIC"
syntax-error: unexpected "REPLCE" after "CREATE OR"
  at line 1:11
    CREATE OR REPLCE STREAM s (a INT);
              ^^^^^^
  fix: did you mean REPLACE?
syntax-error: unexpected "NUL" after "a IS"
  at line 1:28
    SELECT a FROM s WHERE a IS NUL;
                               ^^^
  fix: did you mean NULL?
syntax-error: unexpected "PARTITIONED" after "FROM s"
  at line 1:17
    SELECT a FROM s PARTITIONED BY a;
                    ^^^^^^^^^^^
  fix: did you mean PARTITION?
syntax-error: unexpected "select" after "s ("
  at line 1:18
    CREATE STREAM s (select INT);
                     ^^^^^^
  fix: SELECT is a reserved keyword; write `SELECT` to use it as a name
syntax-error: unexpected "from" after ") AS"
  at line 1:20
    SELECT COUNT(*) AS from FROM s;
                       ^^^^
  fix: FROM is a reserved keyword; write `FROM` to use it as a name
syntax-error: unexpected "=>" after "WHERE a"
  at line 1:25
    SELECT * FROM s WHERE a => 1;
                            ^^
  fix: did you mean >=?
syntax-error: the statement ends too early after "ADD a"
  at line 1:21
    ALTER STREAM s ADD a;
                        ^
  fix: write a type here
syntax-error: unexpected ")" after "<INT"
  at line 1:29
    CREATE STREAM s (a ARRAY<INT);
                                ^
  fix: add ">" before ")"
syntax-error: unexpected "5" after "DEFINE x"
  at line 1:10
    DEFINE x 5;
             ^
  fix: write "=" here
syntax-error: unexpected "-" after "s LIMIT"
  at line 1:23
    SELECT * FROM s LIMIT -1;
                          ^
  fix: remove "-"
syntax-error: unexpected "." after "s s"
  at line 1:18
    SELECT * FROM s s.a = 1;
                     ^
  fix: write JOIN, a clause (WHERE, GROUP BY, EMIT ...) or the end of the statement here
syntax-error: unexpected "SELCT" after "INTO s"
  at line 1:15
    INSERT INTO s SELCT * FROM t;
                  ^^^^^
  fix: did you mean SELECT?
syntax-error: unexpected "," after "a,"
  at line 1:10
    SELECT a,, b FROM s;
             ^
  fix: remove the "," before ","
syntax-error: unexpected "FROM" after "*,"
  at line 1:11
    SELECT *, FROM s;
              ^^^^
  fix: remove the "," before "FROM"
syntax-error: the statement ends too early after "= 1"
  at line 1:29
    SELECT a FROM s WHERE (a = 1;
                                ^
  fix: add ")" at the end
syntax-error: unexpected ")" after "INT PRIMARY"
  at line 1:31
    CREATE TABLE t (id INT PRIMARY) WITH (KAFKA_TOPIC='t');
                                  ^
  fix: add KEY before ")"
"""


@pytest.mark.parametrize("message", re.split(r"\n(?=syntax-error)", MESSAGES.rstrip("\n")))
def test_message(message: str) -> None:
    statement = message.splitlines()[2].removeprefix("    ")
    [error] = parse(statement).errors
    assert str(error) == message


def test_an_error_far_into_a_long_statement_names_what_is_expected() -> None:
    columns = ", ".join(f"c{number}" for number in range(400))
    [error] = parse(f"SELECT {columns} FROM s WERE a = 1;").errors
    assert error.what == 'unexpected "a" after "s WERE"'
    assert error.fix == "write JOIN, a clause (WHERE, GROUP BY, EMIT ...) or the end of the statement here"
