# Everything a contributor runs. Needs Python 3.11 or newer with pip and venv; the rest is installed into .venv.

PYTHON ?= python3
VENV := .venv
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

.PHONY: demo test check format lint types coverage bench experiments clean

demo: $(STAMP)  ## the whole flow on the bundled network
	$(BIN)/discreet demo

# Two processes share two cores: threads of the linear algebra would stand in each other's way.
test: $(STAMP)  ## all tests but the slow statistical ones, and the doctests of src and README
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" -q

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

experiments: $(BENCH_STAMP)  ## all figures and tables, quick runs; rebuilds docs/experiments, eleven minutes
	$(BIN)/python -m experiments --quick

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# pgmpy asks for any torch; the pinned one is a CPU build where the index has it.
$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench,peers]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
