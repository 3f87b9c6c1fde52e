# `make` lists the targets. Each one sets up what it needs by itself.
.DEFAULT_GOAL := help
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
CORPORA := $(or $(HEADRACE_CORPORA),../shared/corpora)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# Many short lives of Spark's: its second compiler costs more than it saves.
test conformance-ksql conformance-rest faults-log faults-engine faults-system: export SPARK_SUBMIT_OPTS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

demo: setup ## a click stream, counted by Spark, moving in your terminal
	@.venv/bin/headrace demo

# Two at a time, on two cores: what runs aside tells when it is done.
test: setup-test check audit ## everything, on real parts
	@mkdir -p build/test
	$(PYTEST) -m "not long and not server" tests/spark >build/test/spark.txt 2>&1 & spark=$$!; \
		rest=0; for suite in tests/docs "tests/conformance tests/contract tests/integration" tests/package tests/browser "-m server tests/spark"; do \
			$(PYTEST) $$suite || rest=1; done; \
		wait $$spark; spark=$$?; cat build/test/spark.txt; exit $$((rest + spark))
	$(PYTEST) tests/soak >build/test/soak.txt 2>&1 & soak=$$!; \
		$(PYTEST) tests/faults; rest=$$?; wait $$soak; soak=$$?; cat build/test/soak.txt; exit $$((rest + soak))

check: setup-test ## format, lint, types, imports, unit tests; some three minutes
	$(PY) -m ruff format --check -q .
	$(PY) -m ruff check -q .
	.venv/bin/lint-imports --no-cache >/dev/null || .venv/bin/lint-imports --no-cache
	.venv/bin/pyright --warnings & types=$$!; $(PYTEST) -n 2 tests/unit; units=$$?; wait $$types && exit $$units

browser: setup-test ## the dashboard in Chromium (PICTURES=1 makes those of the docs anew)
	$(if $(PICTURES),HEADRACE_PICTURES=1) $(PYTEST) tests/browser

test-long: setup-test ## what `make test` leaves out, as it takes long
	$(PYTEST) -m long tests/spark

properties: setup-test ## the property tests again, with many examples each; half an hour
	HEADRACE_HYPOTHESIS=heavy $(PYTEST) -n 2 tests/unit

conformance-ksql: setup-test ## the public cases of ksqlDB (CORPUS=path ONLY=text MODE=memory|spark|stream SEED=n SAMPLE=n)
	@for corpus in $(or $(CORPUS),$(CORPORA)/ksql/public.jsonl $(CORPORA)/ksql/sql_public.jsonl); do \
		$(PY) -m tests.conformance.ksql --corpus "$$corpus" --only "$(ONLY)" --mode $(or $(MODE),memory) \
			--seed $(or $(SEED),0) --sample $(or $(SAMPLE),24) \
			--actual "$(or $(ACTUAL),build/conformance/$$(basename $$corpus))" || failed=1; \
	done; exit $${failed:-0}

conformance-rest: setup-test ## the public cases of ksqlDB's REST interface, through the real server (CORPUS=path ONLY=text SAMPLE=n SEED=n)
	$(PY) -m tests.conformance.rest --corpus "$(or $(CORPUS),$(CORPORA)/ksql/rest_public.jsonl)" --only "$(ONLY)" \
		--sample $(or $(SAMPLE),0) --seed $(or $(SEED),0) --actual "$(or $(ACTUAL),build/conformance/rest.jsonl)"

goldens: setup-test ## results of the public cases and of 2,000 generated statements beside the golden ones (REST=1: of the REST cases, too)
	@for name in public sql_public; do \
		$(PY) -m tests.conformance.ksql --corpus $(CORPORA)/ksql/$$name.jsonl --actual build/conformance/$$name.jsonl | tail -n 1 && \
		$(PY) -m tests.conformance.goldens compare $$name build/conformance/$$name.jsonl || failed=1; done; \
	$(PY) -m tests.conformance.goldens generated || failed=1; \
	$(if $(REST),$(PY) -m tests.conformance.rest --corpus $(CORPORA)/ksql/rest_public.jsonl --actual build/conformance/rest.jsonl | tail -n 1; \
		$(PY) -m tests.conformance.goldens compare rest_public build/conformance/rest.jsonl || failed=1;) exit $${failed:-0}

bless: setup-test ## write the expected plans of tests/golden anew
	$(PY) -m tests.golden

faults-log: setup-test ## 200 kill -9 on the embedded log, 30 on Kafka (SEED=n, KILLS=n)
	$(PY) -m tests.faults.log.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),200) --kafka-kills $(or $(KAFKA_KILLS),30)

faults-engine: setup-test ## 100 kill -9 of drivers, Python workers and a broker under a job of queries (SEED=n KILLS=n ONLY=embedded|kafka)
	$(PY) -m tests.faults.engine.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),100) $(if $(ONLY),--only $(ONLY))

faults-system: setup-test ## 50 kill -9 of a server under load, its Spark, workers and the broker, and a full disk (SEED=n KILLS=n ONLY=embedded|kafka|disk)
	$(PY) -m tests.faults.system.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),50) $(if $(ONLY),--only $(ONLY))

bench-log: setup-test ## the log beside Kafka in one run; fails when a target is missed (ONLY=name)
	$(PY) -m bench log $(if $(ONLY),--only $(ONLY))

bench-chain: setup-test ## the chain in memory beside hand-written loops (ONLY=name)
	$(PY) -m bench chain $(if $(ONLY),--only $(ONLY))

bench-engine: setup-test ## queries on Spark beside Flink, Quix Streams, Faust and PySpark by hand (ONLY=name QUICK=1)
	$(PY) -m bench engine $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

bench-serve: setup-test ## a server under load: pulls, pushes, inserts, many statements, the dashboard (ONLY=name QUICK=1)
	$(PY) -m bench serve $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

ab: setup-test ## this checkout beside another one, five rounds in turn (BASE=commit ONLY="chain:filter engine:keyed-typed" QUICK=1)
	$(PY) -m bench.ab --base $(or $(BASE),HEAD) $(if $(QUICK),--quick) $(or $(ONLY),chain:filter chain:keyed-count chain:windowed-count chain:stream-table-join)

soak: setup-test ## a server under load for an hour: memory, files and threads stay flat (MINUTES=n)
	$(PY) -m tests.soak --minutes $(or $(MINUTES),60)

audit: setup-test ## known weaknesses of pinned packages; needs a network, and says so
	$(PY) -m tools.audit $(if $(STRICT),--strict)

sbom: setup-test ## what a build consists of, as CycloneDX JSON in dist/
	$(PY) -m tools.sbom

build: sbom ## a wheel, and what it consists of, in dist/
	$(PY) -m hatchling build -t wheel -d dist

format: setup-test ## format, and fix what ruff can
	$(PY) -m ruff format -q . && $(PY) -m ruff check -q --fix .

docs: setup-test ## regenerate the reference pages
	$(PY) -m tools.reference

lock: ## pin the newest compatible versions
	uv pip compile -q --group dev --extra kafka --extra avro --extra server --extra postgres --extra push pyproject.toml --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links -o requirements.lock

clean: ## remove what the targets made
	rm -rf .venv build dist bench/results headrace-data

setup:
	@tools/setup.sh demo

setup-test:
	@tools/setup.sh test

.PHONY: help demo test test-long check conformance-ksql conformance-rest goldens bless ab faults-log faults-engine faults-system bench-log bench-chain bench-engine bench-serve soak audit sbom build browser properties format docs lock clean setup setup-test
