# Everything here needs only python3 (3.11 or newer): each target makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRIBUTIONS := platform broker streams connect connectors
MANIFESTS := pyproject.toml constraints.txt $(DISTRIBUTIONS:%=%/pyproject.toml)
KERNEL := $(wildcard platform/hatch_build.py platform/moldau/records/*.pyx platform/moldau/records/*.px[di])
CODE := $(DISTRIBUTIONS:%=%/moldau) connectors/pyspark_moldau.py tests bench examples release
INSTALL := $(BIN)/uv pip install -q -p $(BIN)/python -c constraints.txt

# make test ARGS="-k properties", make bench AREA=records, make story SEED=7, make fuzz SECONDS=300
ARGS ?=
AREA ?=
SEED ?=
NAMES ?=
# Which tests on the newest Python: "... and not long" takes the quick files alone.
NEWEST ?= not deep and not slow
# Which of the deep tests: .ci/run leaves out hunts for planted bugs and soak (tests/soak.py).
DEEP ?= deep
# With MINUTES=20 those of the day, then the closest to the change while that lasts (tests/reach.py).
MINUTES ?=
CYCLES ?= 50
NODES ?= 1
# Records a second of each producer, for chaos of a cluster.
RATE ?= 300
SECONDS ?= 60
ROUNDS ?= 5

# Compiled modules are kept, whatever this shell or its container says: without them every process
# that a test starts compiles all it imports, and pytest rewrites 800 files for each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/.made: $(MANIFESTS) $(KERNEL)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "moldau needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "this python3 cannot make a venv with pip (Debian: apt install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt uv
	$(INSTALL) --group dev $(DISTRIBUTIONS:%=-e ./%) -e .
	@touch $@

$(VENV)/.peers: $(VENV)/.made
	$(INSTALL) --group peers
	@if command -v krb5-config >/dev/null; then CFLAGS=-O0 $(INSTALL) --group kerberos \
	  || echo "tests with Kerberos will skip: gssapi could not be compiled"; fi
	@touch $@

$(VENV)/.demo: $(VENV)/.made
	$(INSTALL) --group demo
	@touch $@

# Spark starts in half the time with it, and the deep tests start it a hundred times.
$(VENV)/.spark-archive: $(VENV)/.demo
	@if $(BIN)/moldau spark warm; then touch $@; else echo "Spark will start without an archive of its classes"; fi

# Kept with the jars, for all clones of a machine.
$(VENV)/.kafka-archive: $(VENV)/.peers
	@if $(BIN)/python -m tests.peers.class_archive; then touch $@; fi

$(VENV)/.stream-peers: $(VENV)/.made
	$(INSTALL) --group stream-peers
	@touch $@

$(VENV)/.fuzz: $(VENV)/.made
	$(INSTALL) --group fuzz
	@touch $@

$(VENV)/.docs: $(VENV)/.made
	$(INSTALL) --group docs
	@touch $@

$(VENV)/.release: $(VENV)/.made
	$(INSTALL) --group release
	@touch $@

.PHONY: venv
venv: $(VENV)/.made ## make .venv with moldau and its tools

.PHONY: peers
peers: $(VENV)/.peers $(VENV)/.fuzz $(VENV)/.kafka-archive $(VENV)/.spark-archive $(VENV)/.stream-peers $(VENV)/.docs $(VENV)/.release ## install other clients, the fuzzer, mkdocs and zig: for conformance, bench, fuzz and wheels

.PHONY: demo
demo: $(VENV)/.demo ## a shop: PostgreSQL, Connect, Streams and Spark, and a page of plots; ENGINE=spark runs the Streams app on Spark, KEEP=1 leaves it running with the console
	@$(BIN)/python -m examples.shop $(if $(ENGINE),--engine $(ENGINE)) $(if $(KEEP),--keep)

.PHONY: demo-broker
demo-broker: venv ## a broker starts, and a million records are sent and read
	@$(BIN)/python -m examples.million_records

.PHONY: story
story: venv ## a three-node replicated log under crashes and cuts, in simulated time
	@$(BIN)/python -m examples.replicated_log $(if $(SEED),--seed $(SEED))

# In a random order; ARGS="-n 0 --randomly-seed=7" repeats one. More workers than cores: half of the
# time of a test is waiting for another process, two thirds of a deep one. Spark waits less.
PYTEST := $(BIN)/python -m pytest --dist worksteal
CORES = $(shell $(BIN)/python -c 'import os; print(os.cpu_count() or 1)')
TEST_WORKERS = $(shell expr $(CORES) \* 2)
DEEP_WORKERS = $(shell expr $(CORES) \* 2)
SPARK_WORKERS = $(shell expr $(CORES) \* 3 / 2)
# With AGAIN=yes what has failed beside other tests runs again by itself; tests/again.py names it and
# says how much of that is too much. A run that did not come to its end fails all the same.
ALONE := $(PYTEST) -n 1 -v --last-failed --last-failed-no-failures none --again

.PHONY: test
test: venv ## the tests that find bugs in the code; make test ARGS="-k name"
	$(PYTEST) -n $(TEST_WORKERS) -m "not deep" $(ARGS); \
	case $$?$(AGAIN) in 0*) ;; 1yes) $(ALONE) -m "not deep" $(ARGS);; *) exit 1;; esac

# Before a commit of tests that share a broker, a browser or a process (tests/turned.py).
FILES = $(shell $(BIN)/python -m tests.turned)
TURNED = $(PYTEST) -n 0 -m "not hunt and not soak" -p no:randomly -p tests.turned --turn
.PHONY: test-order
test-order: venv ## tests of changed files backwards, then each without what others share; make test-order FILES=tests/console
	@test -n "$(FILES)" || { echo "no file with tests has changed; give FILES=tests/..."; exit 2; }
	$(TURNED) backwards $(FILES) $(ARGS)
	$(TURNED) alone $(FILES) $(ARGS)

# In a venv of its own, on the newest Python that this machine has. Slow tests are simulations of
# many seeds, most of them: those find nothing of a Python.
.PHONY: test-newest
test-newest: venv ## most of make test on the newest Python of this machine, if it is newer
	@newest=$$($(BIN)/python -m tests.newest_python); test -z "$$newest" || { \
	  echo "again, on $$newest"; $(MAKE) --no-print-directory test \
	    VENV=$(VENV)/newest PYTHON=$$newest ARGS='-m "$(NEWEST)" $(ARGS)'; }

# Spark after all others: together they need 11 GB. One of the two parts may have no test, which is
# 5 to pytest: with ARGS="-k name".
LEFT_OUT := build/deep-tests-left-out.json
# One word: pytest would take a second one for a folder, and not find the options of tests/.
REACHED = $(if $(MINUTES),--left-out=$(LEFT_OUT))
.PHONY: test-deep
test-deep: $(VENV)/.peers $(VENV)/.fuzz $(VENV)/.kafka-archive $(VENV)/.spark-archive $(VENV)/.stream-peers $(VENV)/.release ## tests with Java, Spark, other clients, wheels, and the tests of the tests
	$(if $(MINUTES),@$(BIN)/python -m tests.reach $(LEFT_OUT) --minutes $(MINUTES) --cores $(CORES))
	$(PYTEST) -n $(DEEP_WORKERS) -m "($(DEEP)) and not spark" $(REACHED) $(ARGS); others=$$?; \
	$(PYTEST) -n $(SPARK_WORKERS) -m "($(DEEP)) and spark" $(REACHED) $(ARGS); spark=$$?; \
	case $$others$${spark}$(AGAIN) in \
	  00*|05*|50*) ;; \
	  01yes|10yes|11yes|15yes|51yes) $(ALONE) -m "$(DEEP)" $(REACHED) $(ARGS);; \
	  *) exit 1;; \
	esac

# The quickest first: the first that fails ends it. Called as modules, they are those of VENV, and see
# what is installed there.
.PHONY: check
check: venv ## format, lint, layers, architecture, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 0 tests/architecture
	$(BIN)/python -m mypy $(CODE)

.PHONY: format
format: venv ## let ruff format and repair what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: cover
cover: venv ## tests with branch coverage, and what no test reaches
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(ARGS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

.PHONY: chaos
chaos: $(VENV)/.peers ## kill -9 a real broker under load, 50 times; make chaos CYCLES=5 SEED=7 NODES=3
	@$(BIN)/python -m tests.chaos --nodes $(NODES) --rate $(RATE) --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

.PHONY: differential
differential: venv ## ask Apache Kafka anew (Java, Maven), show what changed; NAMES="produce streams"
	$(BIN)/python -m tests.differential renew $(NAMES)

.PHONY: record
record: $(VENV)/.peers ## record real clients against Apache Kafka; NAMES=librdkafka
	$(BIN)/python -m tests.differential record $(NAMES)

.PHONY: bench
bench: $(VENV)/.peers ## tables of ratios beside the peers; make bench AREA=records
	$(BIN)/python -m bench $(AREA) --rounds $(ROUNDS)

.PHONY: stream-bench-peers
stream-bench-peers: venv ## install other stream engines in a venv of their own, for make bench AREA=streams
	$(BIN)/uv venv -q --allow-existing $(VENV)/stream-bench
	$(BIN)/uv pip install -q -p $(VENV)/stream-bench/bin/python --group stream-bench-peers

.PHONY: fuzz
fuzz: $(VENV)/.fuzz ## coverage-guided fuzzing, SECONDS for each target
	$(BIN)/python -m tests.fuzz all --seconds $(SECONDS)

.PHONY: dist
dist: $(if $(findstring --here,$(ARGS)),venv,$(VENV)/.release) ## wheels of all distributions for each kind of Linux, and source archives, in dist/; ARGS="--here" for this machine alone
	@$(BIN)/python -m release $(ARGS)

# In dist/; ARGS=--dry-run checks and says the steps, ARGS=--here makes wheels for this machine alone.
.PHONY: release
release: $(VENV)/.docs $(if $(findstring --here,$(ARGS)),,$(VENV)/.release) ## all that a release has, from a clean tree: wheels, image context, chart, site, checksums; nothing is pushed
	@$(BIN)/python -m release cut $(ARGS)

.PHONY: docs
docs: $(VENV)/.docs ## the site of the docs, in build/docs, a folder for each version; no dead link
	@$(BIN)/python -m release.docs build/docs

.PHONY: man
man: venv ## the man pages of all commands, in build/man
	@$(BIN)/python -m release.man build/man

.PHONY: clean
clean: ## remove what was built here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov
	rm -f .coverage .coverage.* platform/moldau/records/_speed.c platform/moldau/records/_speed*.so
