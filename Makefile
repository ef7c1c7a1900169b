# Everything a contributor runs. Needs Python 3.11 or newer with pip and venv; the rest is installed into .venv.

PYTHON ?= python3
LOWEST_PYTHON ?= python3.11
VENV := .venv
SPARK_VENV := .venv-spark
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
PEER_STAMPS := $(patsubst studies/bench/environments/%.txt,$(VENV)/peers/%/.installed,$(wildcard studies/bench/environments/*.txt))

# Public networks and tables for tests and experiments; tests that need them are skipped, by name, where they are absent.
ifeq ($(origin DISCREET_DATA), undefined)
ifneq ($(wildcard ../shared/data),)
export DISCREET_DATA := $(abspath ../shared/data)
endif
else
export DISCREET_DATA
endif

# What the tests run, and how: `make test TESTS=tests/test_query.py`. What libraries keep in a user's home is kept in
# the environment instead: the home may be empty, or not be ours to write. Bytecode is written whatever the user's shell
# says: hundreds of processes of the tests import the package. Two processes share two cores: threads of the
# linear algebra would stand in each other's way. A file's tests share what they compile, load and draw, so that one
# process runs them all.
TESTS ?=
MUTANTS ?=
WORKERS ?= 2
ALWAYS := not slow and not thorough
CACHE = "$(CURDIR)/$(VENV)/cache"
# One number for all that stands in some files and folders.
SUM = find $(1) -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cksum | cksum | tr ' ' '-'
# Machine code is kept from one process and one run to the next. numba looks whether the file of a function has changed,
# not whether the files have whose functions it calls: so the folder is named after all of them.
COMPILED = $(shell $(call SUM,src/discreet/research/readers src/discreet/evidence))
SETTINGS = PYTHONDONTWRITEBYTECODE= XDG_CACHE_HOME=$(CACHE) XDG_CONFIG_HOME=$(CACHE) OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CACHE)/numba-$(COMPILED)
RUN = $(SETTINGS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q --durations=20
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests of the package, and those of the studies beside it.
PACKAGE_TESTS := src README.md tests
# The tests of Spark are costly ones: `check` runs them where what they read has changed (tests/costly.py).
SPARK_DUE = $(BIN)/python tests/costly.py --due tests/test_spark.py && echo test-spark

SITE := build/site

.PHONY: demo docs install postgres java chromium test test-all test-costly test-thorough test-kernel test-spark check check-studies test-fresh nightly ci-figures format lint types types-elsewhere mutants coverage bench peers experiments experiments-check commands figures test-newest test-lowest test-clients package hooks clean

demo: $(DEMO_STAMP)  ## the whole flow on the bundled network; installs what users have and no more
	$(BIN)/discreet demo

install: $(STAMP) postgres chromium  ## all that `check` needs
	$(if $(shell $(SPARK_DUE)),$(MAKE) $(SPARK_VENV)/.installed java)

# A package of the system for tests that need it, where we may install it; where not, they are skipped.
APT = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(1); } \
	      >/dev/null || echo "$(1) could not be installed: tests that need it are skipped"; \
	  else echo "no $(1) here: tests that need it are skipped"; fi

# The ledger's tests start a PostgreSQL of their own.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || $(call APT,postgresql)

# Spark runs on Java; its tests start a master and workers of their own, which come with pyspark.
java:
	@command -v java >/dev/null || [ -n "$$JAVA_HOME" ] || $(call APT,default-jre-headless)

# Reports are looked at in a browser.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || $(call APT,chromium)

test: $(STAMP) postgres  ## the tests of every change; a costly one where what it reads has changed, or TESTS name it
	find $(CACHE) -maxdepth 1 -name 'numba-*' ! -name 'numba-$(COMPILED)' -exec rm -rf {} + 2>/dev/null || true
	$(RUN) -m "$(ALWAYS)" $(if $(TESTS),--costly $(TESTS),$(PACKAGE_TESTS))

test-costly: $(STAMP) postgres java chromium  ## the costly tests that are due, each file alone; writes tests/costly.json
	$(SETTINGS) $(BIN)/python tests/costly.py --workers $(WORKERS) $(TESTS)

test-thorough: $(STAMP) postgres  ## repeats of what quicker tests say: more cases, seeds and networks
	$(RUN) -m thorough $(TESTS)

test-kernel: $(STAMP) postgres  ## the tests that need no pack, on a copy of the kernel without any
	PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$(CACHE) XDG_CONFIG_HOME=$(CACHE) OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python tests/kernel_alone.py -n 2 --dist loadfile

# Side by side, so that no core waits for another's last file; what a target says stands together.
check: $(STAMP) postgres chromium  ## what continuous integration runs
	$(MAKE) -j4 $(if $(filter output-sync,$(.FEATURES)),-Otarget) lint types test-all $(shell $(SPARK_DUE))

# In one run, so that no worker waits for the other at the end of each part.
test-all: $(STAMP)  ## the tests of the package and of the studies
	$(RUN) -m "$(ALWAYS)" $(PACKAGE_TESTS) studies/tests

check-studies: $(STAMP)  ## experiments and benches: their lint, and all of their tests
	$(BIN)/ruff format --check studies
	$(BIN)/ruff check studies
	$(RUN) --costly -m "$(ALWAYS)" studies/tests

# A failure prints what makes it again, and the seed is in the line of the command.
SEED ?= $(shell date +%Y%m%d)
test-fresh: $(STAMP) postgres java chromium  ## all tests, costly ones too, with cases that no run has seen
	$(RUN) --costly --hypothesis-profile=fresh --hypothesis-seed=$(SEED) -m "$(ALWAYS)" $(PACKAGE_TESTS) studies/tests

nightly: types-elsewhere test-fresh test-spark test-thorough mutants coverage  ## all that takes too long for every change; hours

ci-figures: $(STAMP) postgres java chromium  ## CPU seconds and kills by tier, in CONTRIBUTING.md; half an hour
	rm -f $(VENV)/cpu.jsonl
	$(RUN) --cpu $(VENV)/cpu.jsonl -m "$(ALWAYS) and not costly" $(PACKAGE_TESTS) studies/tests
	$(SETTINGS) $(BIN)/python tests/costly.py --all --workers $(WORKERS) --cpu $(VENV)/cpu.jsonl
	$(BIN)/python tests/ci_figures.py $(VENV)/cpu.jsonl

# Nothing that is built stays from one run to the next: a page that is gone must not hide a link to it.
docs: $(STAMP)  ## the site, in $(SITE): pages, notebooks as they run, the API by its docstrings; warnings are errors
	rm -rf $(SITE)
	XDG_CACHE_HOME=$(CACHE) XDG_CONFIG_HOME=$(CACHE) JUPYTER_CONFIG_DIR=$(CACHE)/jupyter IPYTHONDIR=$(CACHE)/ipython \
	  $(BIN)/python -m sphinx --fail-on-warning --keep-going -q -b html docs $(SITE)
	@echo "open $(SITE)/index.html"

format: $(STAMP)  ## rewrite the sources in the house format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lint: $(STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python tests/tidy.py

types: $(STAMP)
	$(BIN)/mypy

types-elsewhere: $(STAMP)  ## the same where we do not run: no call that macOS or Windows lacks
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

# pre-commit runs the tools of $(VENV), so that their versions are written in constraints.txt alone.
hooks: $(STAMP)  ## let git run the fast half of `check`, formats, lint and types, before each commit
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[hooks]'
	$(BIN)/pre-commit install

mutants: $(STAMP)  ## plant every bug of tests/mutants and see that its tests find it, an hour; or MUTANTS="FILE ..."
	$(BIN)/python tests/planting.py --workers $(WORKERS) $(MUTANTS)

coverage: $(STAMP)  ## the slow statistical tests: coverage of intervals
	$(BIN)/python -m pytest -q -m slow -s

bench: $(BENCH_STAMP) peers  ## speed, coverage and utility, peers beside us in the same run; an hour
	$(BIN)/python -m bench.counting
	$(BIN)/python -m bench.inference
	$(BIN)/python -m bench.posterior
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.calibration
	$(BIN)/python -m bench.accounts
	$(BIN)/python -m bench.utility --compare-mbi
	$(BIN)/python -m bench.plan asia
	$(BIN)/python -m bench.linear --quick
	$(BIN)/python -m bench.components --quick
	$(BIN)/python -m bench.logistic --seeds 10
	$(BIN)/python -m bench.estimators --quick
	$(BIN)/python -m bench.regressions --runs 10
	$(BIN)/python -m bench.synthesizers --quick

peers: $(PEER_STAMPS)  ## environments of the peers whose pins are not ours, 2 GB

$(VENV)/peers/%/.installed: studies/bench/environments/%.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

experiments: $(BENCH_STAMP)  ## all figures and tables, quick runs; rebuilds docs/experiments, more than an hour
	$(BIN)/python -m experiments --quick

experiments-check: $(BENCH_STAMP)  ## whether pages are what is measured: the first repeat of each setting of each page again
	$(BIN)/python -m experiments --check

commands: $(STAMP)  ## writes docs/commands.md, the reference of the command line, anew
	$(BIN)/python tests/command_page.py

figures: $(BENCH_STAMP)  ## makes every figure of README, strengths and guides again, and compares; tens of minutes
	$(BIN)/python -m bench.figures --run

# Spark warns of its libraries' next versions; its tests are those that `make test` skips where pyspark is absent. A file's
# tests share one session.
SPARK_WARNS := -W default -W ignore::ResourceWarning
test-spark: $(SPARK_VENV)/.installed java  ## the tests of Spark on a cluster of this machine, in an environment with the extra; 5 minutes
	DISCREET_TEST_SPARK=cluster $(SPARK_VENV)/bin/python -m pytest -q $(SPARK_WARNS) -k spark tests/test_engines.py
	DISCREET_TEST_SPARK=cluster PYTEST_ADDOPTS="$(SPARK_WARNS)" $(SPARK_VENV)/bin/python tests/costly.py --all tests/test_spark.py

$(SPARK_VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv --clear $(SPARK_VENV)
	$(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[dev,spark]'
	touch $@

test-newest:  ## the tests on the newest versions that pyproject.toml allows, in an environment made for it
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(MAKE) VENV=$(VENV)-newest CONSTRAINTS=/dev/null test TESTS="src README.md tests"

# Its lowest versions have wheels for the lowest Python alone.
test-lowest:  ## the tests on the lowest versions that pyproject.toml states, likewise
	$(LOWEST_PYTHON) -m venv --clear $(VENV)-lowest
	$(LOWEST_PYTHON) tests/lowest.py > $(VENV)-lowest/constraints.txt
	$(MAKE) VENV=$(VENV)-lowest CONSTRAINTS=$(VENV)-lowest/constraints.txt test TESTS="src README.md tests"

# Programs that write clients have an environment of their own: one of them wants another typer.
CLIENTS = $(VENV)/clients
test-clients: $(STAMP)  ## clients of a server that programs write in Python and TypeScript (needs npm) call every operation
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1
	npm install --silent --no-fund --no-audit --prefix $(CLIENTS) openapi-typescript@7.13.0 typescript@5.9.3
	PATH="$(CURDIR)/$(CLIENTS)/bin:$(CURDIR)/$(CLIENTS)/node_modules/.bin:$$PATH" $(RUN) tests/test_serve_answers.py

# Built and installed as a user would, with the versions that development uses: nothing of this environment is seen by
# that of the tests, and nothing of theirs here.
PACKAGE := $(VENV)-package
package:  ## the wheel and the sources, each installed into an empty environment where the demo runs; a few minutes
	rm -rf dist
	$(PYTHON) -m venv --clear $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) hatchling
	$(PACKAGE)/bin/python -m hatchling build -d dist
	for file in dist/*.whl dist/*.tar.gz; do \
	  $(PYTHON) -m venv --clear $(PACKAGE) \
	    && $(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) "$$file[curator]" \
	    && $(PACKAGE)/bin/python -I tests/installed.py || exit 1; \
	done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[dev]'
	touch $@

$(DEMO_STAMP): $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[curator]'
	touch $@

$(BENCH_STAMP): $(STAMP)
	$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[dev,bench,peers]' -e studies
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-newest $(VENV)-lowest $(VENV)-spark $(PACKAGE) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
