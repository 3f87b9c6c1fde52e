# `make` lists the targets. Each target installs what it needs.
.DEFAULT_GOAL := help
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
CORPORA := $(or $(HEADRACE_CORPORA),../shared/corpora)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# These start Spark many times for a short while: the JVM's second compiler costs more than it saves.
test conformance-ksql conformance-rest faults-log faults-engine faults-system faults-workers: export SPARK_SUBMIT_OPTS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

# Spark's Python processes import nothing from the working folder; here they run functions of the tests.
conformance-ksql: export PYTHONPATH := $(CURDIR)

demo: setup ## a server, a generated click stream, a Spark query and a live table in the terminal
	@.venv/bin/headrace demo

test: setup-test check audit ## all tests, against real Spark, Kafka, PostgreSQL and browsers (ONLY="docs browser": these suites)
	$(PY) -m tools.suites $(ONLY)

check: setup-test ## format, lint, types, imports and unit tests; about three minutes
	$(PY) -m ruff format --check -q .
	$(PY) -m ruff check -q .
	.venv/bin/lint-imports --no-cache >/dev/null || .venv/bin/lint-imports --no-cache
	.venv/bin/pyright --warnings & types=$$!; $(PYTEST) -n 2 tests/unit; units=$$?; wait $$types && exit $$units

browser: setup-test ## test the console in Chromium (PICTURES=1: take the screenshots of the docs again)
	$(if $(PICTURES),HEADRACE_PICTURES=1) $(PYTEST) tests/browser

test-long: setup-test ## the slow tests that `make test` leaves out
	$(PYTEST) -m long tests/spark

properties: setup-test ## the property tests with many more examples; half an hour
	HEADRACE_HYPOTHESIS=heavy $(PYTEST) -n 2 tests/unit

conformance-ksql: setup-test ## run ksqlDB's public test cases (CORPUS=path ONLY=text MODE=memory|spark|stream SEED=n SAMPLE=n)
	@for corpus in $(or $(CORPUS),$(CORPORA)/ksql/public.jsonl $(CORPORA)/ksql/sql_public.jsonl); do \
		$(PY) -m tests.conformance.ksql --corpus "$$corpus" --only "$(ONLY)" --mode $(or $(MODE),memory) \
			--seed $(or $(SEED),0) --sample $(or $(SAMPLE),24) \
			--actual "$(or $(ACTUAL),build/conformance/$$(basename $$corpus))" || failed=1; \
	done; exit $${failed:-0}

conformance-rest: setup-test ## run the public test cases of ksqlDB's REST interface against a real server (CORPUS=path ONLY=text SAMPLE=n SEED=n)
	$(PY) -m tests.conformance.rest --corpus "$(or $(CORPUS),$(CORPORA)/ksql/rest_public.jsonl)" --only "$(ONLY)" \
		--sample $(or $(SAMPLE),0) --seed $(or $(SEED),0) --actual "$(or $(ACTUAL),build/conformance/rest.jsonl)"

goldens: setup-test ## compare the results of the public cases and of 2,000 generated statements with the golden files (REST=1: also the REST cases)
	@for name in public sql_public; do \
		$(PY) -m tests.conformance.ksql --corpus $(CORPORA)/ksql/$$name.jsonl --actual build/conformance/$$name.jsonl | tail -n 1 && \
		$(PY) -m tests.conformance.goldens compare $$name build/conformance/$$name.jsonl || failed=1; done; \
	$(PY) -m tests.conformance.goldens generated || failed=1; \
	$(if $(REST),$(PY) -m tests.conformance.rest --corpus $(CORPORA)/ksql/rest_public.jsonl --actual build/conformance/rest.jsonl | tail -n 1; \
		$(PY) -m tests.conformance.goldens compare rest_public build/conformance/rest.jsonl || failed=1;) exit $${failed:-0}

bless: setup-test ## rewrite the expected plans in tests/golden
	$(PY) -m tests.golden

faults-log: setup-test ## 200 times kill -9 on the embedded log, 30 times on Kafka; no acknowledged row may be lost (SEED=n KILLS=n)
	$(PY) -m tests.faults.log.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),200) --kafka-kills $(or $(KAFKA_KILLS),30)

faults-engine: setup-test ## 100 times kill -9 of drivers, Python workers and a broker while queries run (SEED=n KILLS=n ONLY=embedded|kafka)
	$(PY) -m tests.faults.engine.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),100) $(if $(ONLY),--only $(ONLY))

faults-system: setup-test ## 50 times kill -9 of a server under load, its Spark, its workers and the broker; a full disk (SEED=n KILLS=n ONLY=embedded|kafka|disk)
	$(PY) -m tests.faults.system.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),50) $(if $(ONLY),--only $(ONLY))

faults-workers: setup-test ## 200 times kill -9 of Python workers and 20 times of Spark's JVM under running queries (SEED=n KILLS=n)
	$(PY) -m tests.faults.system.campaign --seed $(or $(SEED),0) --kills $(or $(KILLS),220) --only workers

attack: setup-test ## attack a real server in every way that docs/guide/security.md lists (ONLY=text)
	$(PYTEST) tests/attack $(if $(ONLY),-k "$(ONLY)")

bench-log: setup-test ## benchmark the log and Kafka in one run; fails if a target is missed (ONLY=name)
	$(PY) -m bench log $(if $(ONLY),--only $(ONLY))

bench-chain: setup-test ## benchmark the chain in memory and hand-written loops (ONLY=name)
	$(PY) -m bench chain $(if $(ONLY),--only $(ONLY))

bench-engine: setup-test ## benchmark queries on Spark, Flink, Quix Streams, Faust and hand-written PySpark (ONLY=name QUICK=1)
	$(PY) -m bench engine $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

bench-serve: setup-test ## benchmark a server: pull and push queries, inserts, many statements, the console (ONLY=name QUICK=1)
	$(PY) -m bench serve $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

bench-start: setup-test ## benchmark what people wait for: first rows, restarts, the demo (ONLY=name QUICK=1)
	$(PY) -m bench start $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

ab: setup-test ## benchmark this checkout and another commit in turn, five rounds, and print the ratio (BASE=commit ONLY="chain:filter engine:keyed-typed" QUICK=1)
	$(PY) -m bench.ab --base $(or $(BASE),HEAD) $(if $(QUICK),--quick) $(or $(ONLY),chain:filter chain:keyed-count chain:windowed-count chain:stream-table-join)

soak: setup-test ## an hour of load on a server; memory, open files and threads must not grow (MINUTES=n)
	$(PY) -m tests.soak --minutes $(or $(MINUTES),60)

audit: setup-test ## check the pinned packages for known vulnerabilities; without a network it only says so
	$(PY) -m tools.audit $(if $(STRICT),--strict)

sbom: setup-test ## write the software bill of materials to dist/ (CycloneDX JSON)
	$(PY) -m tools.sbom

licenses: setup-test ## check that the licences of all packages and jars are allowed
	$(PY) -m tools.licenses

build: licenses sbom ## build a wheel and its bill of materials in dist/
	$(PY) -m hatchling build -t wheel -d dist

format: setup-test ## format the code and apply ruff's fixes
	$(PY) -m ruff format -q . && $(PY) -m ruff check -q --fix .

docs: setup-test ## regenerate the reference pages
	$(PY) -m tools.reference

# Hashes of every platform's files, and neither addresses nor paths of the machine that wrote them.
COMPILE := uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package pip

lock: ## pin the packages with their hashes, for the new requirements (UPGRADE=1: the newest versions of all); needs uv
	$(COMPILE) $(if $(UPGRADE),--upgrade) --group build -o requirements-build.lock
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras -c requirements-build.lock -o requirements.lock
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras --group dev -c requirements-build.lock -c requirements.lock -o requirements-dev.lock

clean: ## delete everything that the targets have created, and headrace-data
	rm -rf .venv build dist bench/results headrace-data

setup:
	@tools/setup.sh demo

setup-test:
	@tools/setup.sh test

.PHONY: help demo test test-long check conformance-ksql conformance-rest goldens bless ab faults-log faults-engine faults-system faults-workers attack bench-log bench-chain bench-engine bench-serve bench-start soak audit licenses sbom build browser properties format docs lock clean setup setup-test
