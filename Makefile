# Everything a contributor runs. Needs Python 3.11 or newer with pip and venv; the rest is installed into .venv.

PYTHON ?= python3
LOWEST_PYTHON ?= python3.11
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

# Public networks and tables for tests and experiments; tests that need them are skipped, by name, where they are absent.
ifeq ($(origin DISCREET_DATA), undefined)
ifneq ($(wildcard ../shared/data),)
export DISCREET_DATA := $(abspath ../shared/data)
endif
else
export DISCREET_DATA
endif

# What the tests run, and how: `make test TESTS=tests/test_query.py`. What libraries keep in a user's home is kept in
# the environment instead: the home may be empty, or not be ours to write. Two processes share two cores: threads of the
# linear algebra would stand in each other's way.
TESTS ?=
WORKERS ?= 2
CACHE = "$(CURDIR)/$(VENV)/cache"
RUN_TESTS = XDG_CACHE_HOME=$(CACHE) XDG_CONFIG_HOME=$(CACHE) OPENBLAS_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" -q --durations=20 $(TESTS)
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo install postgres test check format lint types coverage bench experiments test-newest test-lowest clean

demo: $(STAMP)  ## the whole flow on the bundled network
	$(BIN)/discreet demo

install: $(STAMP) postgres  ## all that the other targets need, but those of bench and experiments

# The ledger's tests start a PostgreSQL of their own, from the system's package; where there is none they are skipped.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends postgresql; } \
	      >/dev/null || echo "PostgreSQL could not be installed: tests that need it are skipped"; \
	  else echo "no PostgreSQL here: tests that need it are skipped"; fi

test: $(STAMP) postgres  ## all tests but the slow statistical ones, and the doctests of src and README
	$(RUN_TESTS)

check: lint types test  ## what continuous integration runs

format: $(STAMP)  ## rewrite the sources in the house format
	$(BIN)/ruff check --fix src tests bench experiments
	$(BIN)/ruff format src tests bench experiments

lint: $(STAMP)
	$(BIN)/ruff format --check src tests bench experiments
	$(BIN)/ruff check src tests bench experiments

types: $(STAMP)
	$(BIN)/mypy

coverage: $(STAMP)  ## the slow statistical tests: coverage of intervals
	$(BIN)/python -m pytest -q -m slow -s

bench: $(BENCH_STAMP)  ## speed, coverage and utility, peers beside us in the same run; half an hour
	$(BIN)/python -m bench.counting
	$(BIN)/python -m bench.inference
	$(BIN)/python -m bench.posterior
	$(BIN)/python -m bench.calibration
	$(BIN)/python -m bench.utility --compare-mbi
	$(BIN)/python -m bench.linear --quick
	$(BIN)/python -m bench.logistic --seeds 10

experiments: $(BENCH_STAMP)  ## all figures and tables, quick runs; rebuilds docs/experiments, a quarter of an hour
	$(BIN)/python -m experiments --quick

test-newest:  ## the tests on the newest versions that pyproject.toml allows, in an environment made for it
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(MAKE) VENV=$(VENV)-newest CONSTRAINTS=/dev/null test

# Its lowest versions have wheels for the lowest Python alone.
test-lowest:  ## the tests on the lowest versions that pyproject.toml states, likewise
	$(LOWEST_PYTHON) -m venv --clear $(VENV)-lowest
	$(LOWEST_PYTHON) tests/lowest.py > $(VENV)-lowest/constraints.txt
	$(MAKE) VENV=$(VENV)-lowest CONSTRAINTS=$(VENV)-lowest/constraints.txt test

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[dev]'
	touch $@

# pgmpy asks for any torch; the pinned one is a CPU build where the index has it.
$(BENCH_STAMP): $(STAMP)
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[dev,bench,peers]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-newest $(VENV)-lowest .pytest_cache .mypy_cache .ruff_cache .hypothesis
