# Every target first sets up .venv, unless it is up to date.
SHELL := /bin/bash
# Without bytecode every test process and every broker that a test starts would compile all modules anew: up to 15 s each.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
READY := .venv/.ready
# test-chaos runs SEEDS seeds from FIRST on; if FIRST is empty, the first seed is derived from the commit. The number is chosen
# for 6 minutes on two idle cores (docs/gate-a-change.md); time never cuts a run.
SEEDS ?= 128
FIRST ?=
STORE ?= store/chaos
PYTEST_ARGS ?=
BENCH_ARGS ?=
WORKERS ?= 1
SOAK_SEEDS ?= 0..19

.PHONY: help setup check test test-fast test-chaos test-docker test-systems test-systems-fast soak-docker images image bench bench-docker bench-systems bench-process bench-checkers bench-shrink bench-explore bench-failover bench-growth bench-spark bench-million bench-serve bench-page prove-checkers prove-requirements check-requirements second-opinion porcupine mutation site wheel clean
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Times are those of two cores; docs/commands.md says more of each."

$(READY): pyproject.toml constraints.txt .ci/setup .ci/java
	@bash .ci/setup

setup: $(READY)  ## installs everything into .venv, 1.8 GB: 5 minutes

check: $(READY)  ## ruff, mypy, import contracts, tidy tests: 1 minute
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

# Before a commit, beside `make check`: everything that needs no process, no Java and no browser, and is not slow.
test-fast: $(READY)  ## the tests without processes and Java, before a commit: 1 minute
	$(BIN)/python -m pytest -q -n auto -m 'not (slow or spark or zookeeper or browser or docker or systems or systems_all)' --ignore=tests/tidy $(PYTEST_ARGS)

# Clusters of real processes wait more than they work: more of them than there are cores, and nothing beside them.
test: $(READY)  ## all tests but those of containers and of Kafka: 15 minutes
	$(BIN)/python -m pytest -n auto -m 'not (docker or zookeeper or systems or systems_all)' --durations=20 $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n 6 -m 'zookeeper' --durations=20 $(PYTEST_ARGS)

test-chaos: $(READY)  ## the gate for a change of the protocol; SEEDS=128 FIRST=1: 6 minutes
	$(BIN)/highwater chaos --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --store $(STORE)

# Needs a Docker engine on this machine. Runs mostly wait, so there are more workers than cores.
test-docker: images  ## clusters in containers; needs a Docker engine: 6 minutes
	$(BIN)/python -m pytest -q -m docker -n 6 tests/docker $(PYTEST_ARGS)

# The plans of corpus/real on releases of Apache Kafka, some in containers if an engine answers, a cluster by hand, a toy.
# Fetches the jars first, if they are not here.
test-systems: $(READY)  ## the plans of corpus/real on nine releases of Apache Kafka
	bash .ci/systems 0.10.2.2 0.11.0.3 1.1.1 2.0.1 2.8.2 3.7.0 3.9.1 4.1.0 4.2.0
	$(BIN)/python -m pytest -q -m 'systems or systems_all' -n 4 tests/systems tests/docker tests/highwater/test_chaos_on_systems.py $(PYTEST_ARGS)

# The part of it that CI runs.
test-systems-fast: $(READY)  ## the part of test-systems that CI runs, three releases: 3 minutes
	bash .ci/systems 0.10.2.2 3.9.1 4.1.0
	$(BIN)/python -m pytest -q -m systems -n 2 tests/systems tests/highwater/test_chaos_on_systems.py $(PYTEST_ARGS)

soak-docker: images  ## twenty seeds of every fault in containers, a minute each
	$(BIN)/python -m highwater campaign --backend docker --seeds $(SOAK_SEEDS) --seconds 60 --store store/soak

images: $(READY)  ## container images of brokers and ZooKeeper: 2 minutes at first
	$(BIN)/python -m highwater.backends.real.containers.images

# The harness itself as an image, `highwater`.
image: $(READY)  ## container image of the harness
	$(BIN)/python -m highwater.backends.real.containers.images harness

bench: $(READY)  ## speed and memory of runs and campaigns
	POLARS_MAX_THREADS=1 $(BIN)/python -m bench.simulator

bench-process: $(READY)  ## throughput and failover of clusters of processes
	$(BIN)/python -m bench.processes

# Plans of old bugs on releases of Kafka, on an idle machine: three runs of a minute each, recorded in bench/systems.jsonl. For others
# BENCH_ARGS='--plan kip279 --runs 10 kafka:1.1.1'; afterwards python -m bench.systems --page > docs/real-kafka.md.
bench-systems: $(READY)  ## plans of old bugs on releases of Kafka, three runs of a minute each
	$(BIN)/python -m bench.systems $(BENCH_ARGS)

bench-docker: images  ## throughput and failover of clusters in containers
	$(BIN)/python -m bench.containers

bench-checkers: $(READY)  ## time and memory of judging up to ten million rows
	POLARS_MAX_THREADS=1 $(BIN)/python -m bench.checkers
	POLARS_MAX_THREADS=1 $(BIN)/python -m bench.reading

bench-shrink: $(READY)  ## shrinks ten failing runs of different mistakes
	POLARS_MAX_THREADS=1 $(BIN)/python -m bench.shrink

# Pages of stored runs in Chromium.
bench-page: $(READY)  ## how soon the page of a stored run is shown; RUNS=…
	$(BIN)/python -m bench.page $(RUNS)

bench-serve: $(READY)  ## pages of a store with 10,000 runs
	$(BIN)/python -m bench.serve $(BENCH_ARGS)

# On an idle machine: three minutes on one core.
bench-explore: $(READY)  ## states a second of the explorer: 3 minutes
	$(BIN)/python -m bench.explore $(BENCH_ARGS)
	$(BIN)/python -m bench.model

bench-growth: $(READY)  ## what a run costs with more minutes, partitions, brokers or clients: 2 minutes
	POLARS_MAX_THREADS=1 $(BIN)/python -m bench.growth $(BENCH_ARGS)

# Simulated time, so a busy machine gives the same figures. BENCH_ARGS='--partitions 100 1000' takes a minute.
bench-failover: $(READY)  ## failover of 100 to 10,000 partitions at 4 ms a write of ZooKeeper: ten minutes
	$(BIN)/python -m bench.failover $(BENCH_ARGS)

# On an idle machine: two hours on two cores, most of them for the runs and histories that it judges. BENCH_ARGS makes it smaller.
bench-spark: $(READY)  ## campaigns, judging and questions on Spark: 2 hours
	$(BIN)/python -m bench.spark $(BENCH_ARGS)

# A million runs that cost nothing, on Spark: what everything around them costs. Ten minutes or more on two cores, 10 GB of disk.
bench-million: $(READY)  ## a million runs that cost nothing, on Spark: 10 minutes or more
	$(BIN)/python -m bench.million $(BENCH_ARGS)

# Compares every judge with its definition on 100,000 small histories: 45 minutes on one core.
prove-checkers: $(READY)  ## compares every judge with its definition on 100,000 histories: 45 minutes
	POLARS_MAX_THREADS=1 nice $(BIN)/python -m proof --histories 100000 --workers $(WORKERS) --write docs/proof.md

# Judges 300 runs of safe, and those of the known-bad protocols, by linearizability beside the checkers: 20 minutes on one core.
second-opinion: $(READY)  ## judges 300 runs by linearizability beside the checkers: 20 minutes
	nice $(BIN)/python -m bench.second_opinion --write docs/evidence.md

# Judges 100,000 random histories of each model of linearizability beside Porcupine: an hour and a half on one core. Needs Go 1.21.
porcupine: $(READY)  ## judges 100,000 histories of each model beside Porcupine; needs Go: 90 minutes
	POLARS_MAX_THREADS=1 nice $(BIN)/python -m bench.porcupine --workers $(WORKERS) $(or $(BENCH_ARGS),--write docs/evidence.md)

# Breaks the code of each clause of the documents whose code, tests or mutation changed, and sees its tests fail; also of each mistake
# that a reader made up, and sees its plan fail.
prove-requirements: $(READY)  ## breaks each clause of the documents, sees its tests fail; only what changed; IDS='R-024 …' AGAIN=1
	$(BIN)/python -m mutation $(if $(AGAIN),--again) $(IDS)

# The same for three minutes at most, without storing what was proved.
check-requirements: $(READY)  ## prove-requirements without storing what was proved: 3 minutes at most
	$(BIN)/python -m mutation --check --within 180

# Breaks the protocol in 160 drawn places, one at a time, and sees whether the gate (test-chaos) notices. Hours; it can be stopped and
# goes on where it was.
mutation: $(READY)  ## breaks the protocol in 160 places, counts what the gate notices; IDS='M-007 …' AGAIN=1: hours
	nice $(BIN)/python -m mutation --gate --jobs 2 $(if $(AGAIN),--again) $(IDS)

# The documents and the API of the judges as pages: dist/site/index.html. A dead link is an error.
site: $(READY)  ## the documents and an example store as pages: dist/site/index.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d dist/site.doctrees docs dist/site
	PATH="$(abspath $(BIN)):$$PATH" bash .ci/example-store dist/site

# What users install: dist/highwater_harness-VERSION-py3-none-any.whl.
wheel: $(READY)  ## what users install, in dist
	$(BIN)/python -m hatchling build -t wheel -d dist

clean:  ## removes .venv, dist and the caches
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
