# relstate: every target installs what it needs, in .venv beside this file.
#
#   make demo        run the main example on real data
#   make test        run the tests but the slow ones    (ARGS="-k log -x" goes to pytest, WORKERS=2)
#   make test-unit   run those of them that need no Spark: 90 seconds
#   make test-slow   run the slow ones: kills, damage, documents, examples, laws with many seeds
#   make test-spark  run those that need a Spark on another minor version of it, from an environment
#                    of its own in build    (VERSION=4.1 or 4.2; ARGS chooses the tests)
#   make durations   run all tests and record which of them are slow
#   make test-python  run those that need no Spark on another Python, from an environment of its own in
#                    build    (PYTHON=python3.13; ARGS chooses the tests)
#   make test-oldest   run them with the least version of each requirement, likewise
#   make golden      write the golden stores of this version, until it is released: tests/golden
#   make docs        build the site of the documents in build/site
#   make dist        build a wheel and a source distribution in dist, twice, and try each alone on
#                    Python 3.11 to 3.13 and on the oldest Spark
#   make bench       run the benchmarks       (ARGS goes to them)
#   make bench-peers run the same work by other systems, each in a process of its own, from
#                    .venv-peers    (ARGS="--rows 200000" goes to it; docs/peers.md)
#   make lint        check style and types
#   make format      rewrite the sources in the project's style
#   make typecheck   check types only
#   make clean       remove everything that was made
#
# PYTHON=python3.12 chooses the interpreter the environment is made from.

SHELL := /bin/sh
.SHELLFLAGS := -ec
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
ARGS ?=
# How many processes run the tests; each starts a Spark of its own when it needs one.
WORKERS ?= 2
# The suites of Spark that also run over an object server: writes, streams, and views kept by both.
ON_SERVER := $(addprefix tests/connector/,test_write.py test_stream.py test_foreach_batch.py \
	views/test_refresh.py views/test_stream.py)
# Those that also run over one that loses, delays and doubles requests: commits, feeds, a stream, a view.
ON_FAULTS := tests/storage/test_writing.py $(addprefix tests/storage/,feed/test_feed_reader.py test_views.py) \
	$(addprefix tests/connector/,test_stream.py views/test_stream.py)
VENV := .venv
PEERS := .venv-peers
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -P -m pytest --numprocesses=$(WORKERS) --dist=worksteal
STAMP := $(VENV)/installed
# The minor version of Spark of `make test-spark`, and where its environment is.
VERSION ?= 4.1
SPARK := build/spark-$(VERSION)

# Spark starts its Python workers by these; another Spark or modules of the user must not interfere.
export PYSPARK_PYTHON := $(CURDIR)/$(RUN)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(RUN)
unexport SPARK_HOME PYTHONPATH PYTHONHOME VIRTUAL_ENV
# The tests start hundreds of Python processes: without compiled files each compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-unit test-slow test-spark test-python test-oldest durations golden docs dist bench bench-peers lint format typecheck clean preflight

demo: $(STAMP)
	$(RUN) examples/flights.py $(ARGS)

test-unit: $(STAMP)
	$(PYTEST) -m "not spark and not slow" $(ARGS)

test: $(STAMP)
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(STAMP)
	$(PYTEST) -m "slow or law" --hypothesis-profile=thorough $(ARGS)
	$(if $(ARGS),,$(PYTEST) --place=server -m "not slow" $(ON_SERVER))
	$(if $(ARGS),,$(PYTEST) --place=faulty -m "not slow" $(ON_FAULTS))

test-spark: export PYSPARK_PYTHON := $(CURDIR)/$(SPARK)/bin/python
test-spark: export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(SPARK)/bin/python
test-spark: $(SPARK)/installed
	$(SPARK)/bin/python -P -m pytest --numprocesses=$(WORKERS) --dist=worksteal \
		-m "spark and not slow" $(ARGS)

test-python: build/$(notdir $(PYTHON))/installed
	build/$(notdir $(PYTHON))/bin/python -P -m pytest --numprocesses=$(WORKERS) --dist=worksteal \
		-m "not spark and not slow" $(ARGS)

test-oldest: build/oldest/installed
	build/oldest/bin/python -P -m pytest --numprocesses=$(WORKERS) --dist=worksteal \
		-m "not spark and not slow" $(ARGS)

durations: $(STAMP)
	$(PYTEST) --junitxml=build/tests.xml -o junit_family=xunit1 -o junit_duration_report=call $(ARGS)
	$(RUN) scripts/durations.py build/tests.xml

golden: export PYSPARK_PYTHON := $(CURDIR)/$(RUN)
golden: export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(RUN)
golden: $(STAMP)
	PYTHONPATH=tests $(RUN) scripts/golden.py $(ARGS)

docs: $(VENV)/installed-docs
	$(RUN) -m zensical build --strict --clean
	$(RUN) scripts/check_site.py build/site

dist: $(STAMP)
	$(RUN) scripts/distribution.py dist
	$(RUN) scripts/try_distribution.py dist

bench: $(STAMP)
	$(RUN) -m benchmarks $(ARGS)

bench-peers: $(PEERS)/spark-4.3/installed
	$(PEERS)/spark-4.3/bin/python -m benchmarks.peers $(ARGS)

lint: $(STAMP) typecheck
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: $(STAMP)
	$(RUN) -m ruff check --fix-only .
	$(RUN) -m ruff format .

typecheck: $(STAMP)
	$(RUN) -m mypy -p relstate -p pyspark_relstate -p benchmarks \
		-m flights -m flights_cluster -m leaderboard
	$(RUN) -m mypy tests
	$(RUN) -m basedpyright --pythonpath $(RUN)

clean:
	rm -rf $(VENV) $(PEERS) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf build dist *.egg-info package/*.egg-info spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

preflight:
	@sh scripts/preflight.sh "$(PYTHON)"

$(RUN): | preflight
	"$(PYTHON)" -m venv $(VENV)

# An editable install: an edit needs no new one, and Spark discovers pyspark_relstate in package/.
$(STAMP): pyproject.toml | preflight $(RUN)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

build/spark-%/installed: pyproject.toml | preflight
	"$(PYTHON)" -m venv build/spark-$*
	build/spark-$*/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable ".[dev]" "pyspark[connect]==$*.*"
	touch $@

build/python3%/installed: pyproject.toml | preflight
	"$(PYTHON)" -m venv build/python3$*
	build/python3$*/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

build/oldest/installed: pyproject.toml scripts/oldest.py | preflight
	"$(PYTHON)" -m venv build/oldest
	build/oldest/bin/python scripts/oldest.py > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint build/oldest/constraints.txt --editable ".[dev]"
	touch $@

$(PEERS)/spark-4.3/installed: pyproject.toml | preflight
	"$(PYTHON)" -m venv $(PEERS)/spark-4.3
	$(PEERS)/spark-4.3/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[peers]"
	touch $@

$(VENV)/installed-docs: pyproject.toml | preflight $(RUN)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@
