"""Realtime mode: Spark's real-time trigger from Kafka to Kafka compared with the chain, with unusual records.

What is written is compared byte for byte, with its time; what cannot be read must be among the dead letters.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from headrace.contracts import Append, Topic, TopicSpec, dead_letter_topic
from headrace.control.program import Program
from headrace.engine.planning.mode import choose_execution
from headrace.engine.realtime.compiler import source_frame
from headrace.engine.realtime.envelope import ORIGIN_HEADER, QUERY_HEADER
from headrace.engine.realtime.formats import value_bytes
from headrace.errors import BadSetting, PlanChanged
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import Decoder, Encoder, RawRecord
from headrace.plan.steps import Context, Problem
from headrace.record import Record, StoredRecord
from headrace.schema import Schema
from headrace.settings import Settings
from tests.memory_and_spark import stored
from tests.spark.native_runner import planned

pytestmark = pytest.mark.kafka

CLICKS = (
    "CREATE STREAM clicks (id STRING KEY, page STRING, n BIGINT, few INT, amount DOUBLE, good BOOLEAN, bin BYTES,"
    " `low` STRING) WITH (kafka_topic='{name}', format='JSON', partitions=1);"
)
PRICES = (
    "CREATE STREAM clicks (id STRING KEY, page STRING, price DECIMAL(6, 2), n BIGINT)"
    " WITH (kafka_topic='{name}', key_format='KAFKA', value_format='JSON', partitions=1);"
)
PASSED = "CREATE STREAM o WITH (kafka_topic='{name}-out') AS SELECT * FROM clicks;"

GOOD = (
    b'{"PAGE":"p","N":1,"FEW":2,"AMOUNT":1.5,"GOOD":true,"BIN":"AAE=","low":"l"}',
    b'{"page":"in any case","n":3,"LOW":"large","extra":{"a":[1,{"b":null}]}}',
    b'{"PAGE":"exactly","page":"not this"}',
    b'{"PAGE":null,"page":"nor this"}',
    b'{"Page":"one","pAGE":"the last"}',
    b'{"PAGE":"twice","PAGE":"the last"}',
    b'{"LOW":"1","Low":"2","LOW":"3"}',
    b'{"N":"12","FEW":"+5","AMOUNT":"1.5d"}',
    b'{"N":1.9,"FEW":-1.9,"AMOUNT":3}',
    b'{"N":9223372036854775807,"FEW":-2147483648}',
    b'{"N":9007199254740993.75}',
    b'{"AMOUNT":-0.0}',
    b'{"AMOUNT":-0,"N":-0,"PAGE":-0}',
    b'{"AMOUNT":1e-5}',
    b'{"AMOUNT":123456789.25}',
    b'{"AMOUNT":"NaN"}',
    b'{"AMOUNT":" -Infinity "}',
    b'{"AMOUNT":0.1234567890123456789}',
    b'{"PAGE":12345678901234567890123}',
    b'{"PAGE":true}',
    '{"PAGE":"é😀\u2028ß/"}'.encode(),
    b'{"PAGE":"\\ud83d\\ude00 \\u00e9 \\\\ud800"}',
    b'{"PAGE":"\\u0000\\u001b\\"\\\\\\n\\t\\b\\f\\r\x7f"}',
    b'{"BIN":""}',
    b"{}",
    b"null",
    b' \t{"PAGE":"spaced"}\r\n',
    b'{"deep":[' + b"[]," * 300 + b'[]],"PAGE":"wide"}',
    b'{"deep":"' + b"[" * 300 + b'"}',
    b'{"far":"1e400"}',
    None,
)
BAD = (
    b"",
    b"{",
    b"5",
    b"[]",
    b'{"PAGE":"p"} more',
    b'{"PAGE":"p"}]',
    b'{"PAGE":"p"},{"PAGE":"q"}',
    b"{'PAGE':'p'}",
    b'{"AMOUNT":NaN}',
    b'{"far":1e400}',
    b'{"PAGE":"\\ud800"}',
    b'{"PAGE":"\\ud83d\\\\\\ude00"}',
    b'{"PAGE":"\xff"}',
    b'{"PAGE":"a\tb"}',
    b'{"N":9223372036854775808}',
    b'{"N":"1.0"}',
    b'{"N":true}',
    b'{"FEW":2147483648.5}',
    b'{"AMOUNT":"1_0"}',
    b'{"GOOD":"true"}',
    b'{"BIN":"A?=="}',
    b'{"BIN":"AAE"}',
    b'{"deep":' + b"[" * 300 + b"]" * 300 + b"}",
    b"\xef\xbb\xbf{}",
)
UNSURE = (b'{"PAGE":1.50}', b'{"PAGE":{"a":1}}', b'{"N":1e17}', b'{"N":0.99999999999999999999}')
"""What the chain reads and the realtime way does not, rather than read it otherwise."""


@pytest.fixture
def kafka(kafka_settings: Settings, spark: SparkSession, tmp_path: Path) -> Iterator[KafkaLog]:
    with KafkaLog(
        kafka_settings.replace(
            query_execution_mode="realtime",
            query_realtime_checkpoint_interval=timedelta(seconds=5),
            storage_data=tmp_path / "data",
        )
    ) as opened:
        yield opened


def run(log: KafkaLog, statements: str, pieces: Sequence[Sequence[Record]]) -> None:
    """A program that is stopped after every piece."""
    for piece in pieces:
        with Program(log, log.settings) as program:
            program.execute(statements)
            (running,) = program.running.values()
            assert running.execution_mode == "realtime"
            log.append([Append(running.query.sources[0].topic, from_records(list(piece)))])
            program.wait(until_idle=True)


def records(values: Sequence[bytes | None], key: bytes = b'"k"') -> list[Record]:
    return [Record(value, key, occurred_at=at) for at, value in enumerate(values, 1_000)]


def by_the_chain(statements: str, given: Sequence[StoredRecord]) -> tuple[list[RawRecord], list[Problem]]:
    problems: list[Problem] = []
    pipe = Pipeline(planned(statements), Context(report=problems.append))
    raws = [RawRecord(r.key, r.value, r.timestamp, r.headers, r.partition, r.offset) for r in given]
    return pipe.feed(given[0].topic, raws), problems


def check(log: KafkaLog, statements: str, name: str) -> None:
    """What was written, less what was repeated, is what the chain writes; and so are the dead letters."""
    written, problems = by_the_chain(statements, stored(log, name))
    assert [_plain(r) for r in once(stored(log, f"{name}-out"))] == [(r.key, r.value, r.time) for r in written]
    letters = once(stored(log, dead_letter_topic(f"{name}-out")))
    assert [(_plain(r), header(r, "code"), header(r, "where")) for r in letters] == [
        ((p.key, p.row, p.time), p.code, p.where) for p in problems
    ]


def once(found: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Without repeats: those of one query and one origin."""
    return list({(header(r, QUERY_HEADER), header(r, ORIGIN_HEADER)): r for r in reversed(found)}.values())[::-1]


def header(record: StoredRecord, name: str) -> str:
    return (record.record.header(name) or b"").decode()


def _plain(record: StoredRecord) -> tuple[bytes | None, bytes | None, int]:
    return record.key, record.value, record.timestamp


def test_unusual_json_is_read_and_written_as_by_the_chain(kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name)
    statements = (CLICKS + PASSED).format(name=name)
    keys = [b'"a"', b"null", b"12", b'{"no":"key"}', None]
    odd = [Record(b'{"PAGE":"odd key"}', key, occurred_at=5) for key in keys[:3] + keys[4:]]
    headed = Record(b'{"PAGE":"h"}', b'"k"', (("own", b"\x00"), ("own", b"")), occurred_at=0)
    run(kafka, statements, [[*records(GOOD), *odd, headed], records(BAD)])
    check(kafka, statements, name)
    letters = stored(kafka, dead_letter_topic(f"{name}-out"))
    assert {r.value for r in letters} == set(BAD)
    (carried,) = once([r for r in stored(kafka, f"{name}-out") if header(r, "own") or r.record.header("own") == b""])
    assert [h for h in carried.headers if h[0] == "own"] == list(headed.headers)


# -- any document: the same as the serde reads and writes, or a fault ------------------------------------------------

_PIECES = (
    "0",
    "-0",
    "1.50",
    "-1e5",
    "1e-7",
    "123456789012345678901",
    "0.1e1",
    '"12"',
    '"+7"',
    '" 1.5 "',
    '"x"',
    "true",
)
_PIECES += (
    "null",
    "[]",
    '{"a":[1,{}]}',
    '"\\u00e9\\n"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"QUI="',
    '"NaN"',
    "1.7976931348623157e308",
    '""',
)
_NAMES = ("PAGE", "page", "N", "n", "FEW", "AMOUNT", "GOOD", "BIN", "low", "LOW", "Low", "other", "\\u0050AGE")


def documents(seed: int, count: int) -> list[bytes]:
    """Objects of odd values under odd names; every third is hurt somewhere."""
    dice = np.random.default_rng(seed)
    found: list[bytes] = []
    for i in range(count):
        fields = [f'"{dice.choice(_NAMES)}":{dice.choice(_PIECES)}' for _ in range(dice.integers(1, 5))]
        text = bytearray(("{" + ",".join(fields) + "}").encode())
        if i % 3 == 0:
            text[int(dice.integers(len(text)))] = int(dice.choice(list(b'{}[]",:0e-\\x \xff\x00')))
        found.append(bytes(text))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_any_document_is_decoded_as_by_the_serde_or_rejected(seed: int, spark: SparkSession) -> None:
    query = planned((CLICKS + PASSED).format(name="t"))
    source, payloads = query.sources[0], documents(seed, 600)
    rows = [(value, i) for i, value in enumerate(payloads)]
    raw = spark.createDataFrame(rows, "value binary, offset bigint").selectExpr(*_KAFKA_COLUMNS)
    spark.conf.set("spark.sql.variant.allowDuplicateKeys", "true")
    value = value_bytes(query.sink.value_format, query.sink.relation)
    read = source_frame(raw, source).selectExpr("headers.offset", "headers.code", f"{value} as value").collect()
    decoder, encoder = Decoder(source), Encoder(query.sink)
    wrong: list[object] = []
    same = 0
    for row in read:
        event = decoder.decode(RawRecord(b'"k"', payloads[row.offset], 5))
        if row.code is not None:
            continue
        made = None if isinstance(event, Problem) else encoder.encode(event)
        is_same = isinstance(made, RawRecord) and made.value == (None if row.value is None else bytes(row.value))
        same += is_same
        wrong += [] if is_same else [(payloads[row.offset], row.value, made)]
    assert not wrong
    assert same > 100


_KAFKA_COLUMNS = (
    "*",
    "cast('\"k\"' as binary) as key",
    "'t' as topic",
    "0 as partition",
    "timestamp_millis(5) as timestamp",
    "cast(null as array<struct<key: string, value: binary>>) as headers",
)


# -- the rest -------------------------------------------------------------------------------------------------------


def test_decimals_and_keys_are_read_and_written(kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name)
    statements = (PRICES + "CREATE STREAM o WITH (kafka_topic='{name}-out') AS SELECT * FROM clicks;").format(name=name)
    prices = (b"1.5", b'"+1.50"', b"1.500", b"1.505", b"12345", b"-0", b"0.00", b'" 1"', b"9999.99", b'"-.5"', b"true")
    values = [b'{"price":' + price + b',"n":1.0}' for price in prices]
    run(kafka, statements, [[*records(values, b"k"), Record(b"{}", b"\xff"), Record(b"{}", "é😀".encode())]])
    check(kafka, statements, name)


def test_a_filter_new_columns_and_a_new_key_give_the_results_of_memory(kafka: KafkaLog, name: str) -> None:
    """Keys are numbers; time is a column; dead letters pass the filter, and rows that fail it do not."""
    kafka.create_topic(name)
    statements = (
        f"CREATE STREAM clicks (id BIGINT KEY, page STRING, n INT, at BIGINT) WITH (kafka_topic='{name}',"
        " key_format='KAFKA', value_format='JSON', partitions=1, timestamp='at');"
        f"CREATE STREAM o WITH (kafka_topic='{name}-out') AS SELECT n, id, LEN(page) AS length, n + 1 AS more,"
        " n IS NULL OR page = 'x' AS said, CASE WHEN n > 1 THEN 'many' ELSE page END AS word"
        " FROM clicks WHERE n > 0 AND page <> 'y' PARTITION BY n;"
    )
    ids = [struct.pack(">q", n) for n in (0, 1, -1, 1 << 62, -(1 << 63))]
    rows = [
        b'{"PAGE":"%s","N":%s,"AT":%s}' % (page, n, at)
        for page in (b"x", b"y", "lång".encode())
        for n in (b"0", b"1", b"2147483647", b"null")
        for at in (b"5", b"null", b"-1")
    ]
    given = [Record(value, ids[i % 5], occurred_at=i) for i, value in enumerate(rows)]
    odd = [
        Record(b'{"N":3,"PAGE":"z","AT":9}', None),
        Record(b'{"N":3,"PAGE":"z","AT":9}', b"1234"),
        Record(None, ids[0]),
    ]
    run(kafka, statements, [[*given, *odd]])
    check(kafka, statements, name)
    letters = [header(r, "code") for r in stored(kafka, dead_letter_topic(f"{name}-out"))]
    assert letters.count("bad-time") == 24
    assert letters.count("bad-record") == 1


def test_ambiguous_records_become_dead_letters(kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name)
    run(kafka, (CLICKS + PASSED).format(name=name), [records(UNSURE)])
    letters = once(stored(kafka, dead_letter_topic(f"{name}-out")))
    assert [r.value for r in letters] == list(UNSURE)
    assert all("realtime mode cannot read" in header(r, "reason") for r in letters)


def test_a_restart_loses_nothing_and_marks_repeated_results(kafka: KafkaLog, name: str) -> None:
    """As after kill -9 before the last batch was noted: it comes again, stamped alike. Input is transactional."""
    kafka.create_topic(name, TopicSpec(partitions=2))
    wide = CLICKS.replace("partitions=1", "partitions=2") + PASSED.replace("-out'", "-out', partitions=2")
    statements = wide.format(name=name)
    writer = kafka.writer(f"{name}-writer")
    for turn in range(3):
        given = [Record(b'{"N":%d}' % n, b'"k%d"' % n, occurred_at=n + 1) for n in range(20 * turn, 20 * turn + 20)]
        with Program(kafka, kafka.settings) as program:
            program.execute(statements)
            writer.append(turn, [Append(name, from_records(given))])
            while len(stored(kafka, name)) < 20 * (turn + 1):
                """The end of a transaction shows a moment later."""
            program.wait(until_idle=True)
            (running,) = program.running.values()
            assert running.progress.records >= 20
            assert running.progress.written >= 20
            spark_folder = running.folder / "spark"
        if turn == 0:
            for path in [*(spark_folder / "commits").iterdir(), *(spark_folder / "offsets").iterdir()]:
                path.unlink()
    writer.close()
    found = stored(kafka, f"{name}-out")
    assert len(found) == 80
    read = {(r.key, r.value, r.timestamp, f"{name}:{r.partition}:{r.offset}") for r in stored(kafka, name)}
    assert len(once(found)) == len(read) == 60
    written = {(r.key, r.timestamp, header(r, ORIGIN_HEADER)) for r in found}
    assert written == {(key, time, origin) for key, _, time, origin in read}
    assert {(r.key, r.partition) for r in found} == {(r.key, r.partition) for r in stored(kafka, name)}


@pytest.mark.parametrize("case", ["aggregate", "may fail", "nested", "format", "schema", "embedded", "strict"])
def test_unsupported_plans_are_refused_with_a_reason(case: str) -> None:
    statements, reason, topic, embedded = _refused(case)
    query = planned(statements.format(name="t"))
    topics = {name: Topic(name, topic, 0) for name in ("t", "O", "t-out")}
    told = choose_execution(query, topics, Settings.of(query_execution_mode="realtime"), embedded=embedded)
    assert told.refused
    assert any(reason in said for said in told.reasons), told.reasons
    assert any("not in real time" in line for line in told.lines())


def _refused(case: str) -> tuple[str, str, TopicSpec, bool]:
    raw, typed = TopicSpec(), TopicSpec(schema=Schema.parse("id string key, page string"))
    nested = CLICKS.replace("page STRING", "page ARRAY<STRING>") + PASSED
    counted = "CREATE TABLE o AS SELECT page, COUNT(*) AS c FROM clicks GROUP BY page;"
    return {
        "aggregate": (CLICKS + counted, "more than one record", raw, False),
        "may fail": (CLICKS + "CREATE STREAM o AS SELECT id, n / few AS r FROM clicks;", "may fail", raw, False),
        "nested": (nested, "Python alone reads as JSON", raw, False),
        "format": (CLICKS.replace("JSON", "DELIMITED") + PASSED, "DELIMITED is read by Python", raw, False),
        "schema": (CLICKS + PASSED, "has a schema", typed, False),
        "embedded": (CLICKS + PASSED, "its log is embedded", raw, True),
        "strict": ("SET 'ksql.fail.on.deserialization.error'='true';" + CLICKS + PASSED, "is to end it", raw, False),
    }[case]


def test_a_program_refuses_queries_that_cannot_run_in_realtime_mode(kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name, TopicSpec(partitions=3))
    failing = CLICKS + "CREATE STREAM a AS SELECT id, n / few AS r FROM clicks;"
    wide = CLICKS.replace("partitions=1", "partitions=3") + PASSED
    for statements, said in ((failing, "may fail"), (wide, "3 partitions, each of which occupies a Spark task slot")):
        with Program(kafka, kafka.settings) as program, pytest.raises(BadSetting, match=said):
            program.execute(statements.format(name=name))


def test_a_query_keeps_its_execution_mode(kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name)
    statements = (CLICKS + PASSED).format(name=name)
    run(kafka, statements, [records(GOOD[:1])])
    with (
        Program(kafka, kafka.settings.replace(query_execution_mode="record")) as program,
        pytest.raises(PlanChanged, match="realtime"),
    ):
        program.execute(statements)


def test_explain_says_that_results_may_repeat() -> None:
    query = planned((CLICKS + PASSED).format(name="t"))
    topics = {name: Topic(name, TopicSpec(), 0) for name in ("t", "t-out")}
    told = choose_execution(query, topics, Settings.of(query_execution_mode="realtime"), embedded=False)
    assert not told.refused
    assert "at least once" in told.lines()[0]
