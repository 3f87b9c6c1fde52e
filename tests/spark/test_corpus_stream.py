"""A sample of the public KSQL cases as programs on Spark, stopped and restarted in between."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.testing.json_payloads import read_json
from tests.conformance import corpus_functions
from tests.conformance.modes import input_schedule, stream
from tests.unit.lang.ksql.corpus import FOLDER

SEED, SIZE = 5, 24


def test_cases_write_the_records_of_memory(spark: SparkSession) -> None:
    corpus = FOLDER / "public.jsonl"
    if not corpus.exists():
        print(f"no corpus at {corpus}: set HEADRACE_CORPORA; this test says nothing without it")
        return
    cases = [read_json(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    with corpus_functions.installed():
        chosen, _ = input_schedule.sample_cases(cases, SEED, SIZE)
        results = stream.run(chosen, SEED)
    assert len(results) == SIZE
    assert not [what for result in results for what in result.differences]
