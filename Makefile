# make demo                        fit two real data sets, print the tables, write the reports into ./demo
# make test [EXTRAS=torch]         the tests, a process a core; ARGS="-m 'not slow' -x" goes to pytest
# make test-sets                   the tests with the oldest and with the newest dependencies, each in a venv in build/
# make lint                        format, lint rules and types
# make docs                        the documentation, with warnings as errors, into docs/_build/html
# make docs-links                  every link and anchor within the documentation exists
# make docs-width                  measure in headless Chromium that no page is wider than a phone
# make release                     build and check the distributions, and run the tests of the installed sdist in a clean venv
# make benchmarks                  list the benchmark scripts; each runs alone: .venv/bin/python benchmarks/NAME.py
# make benchmarks-check            quick ratios against the stored ones of this processor
# make clean                       remove all that was made, the environment included
#
# Every target makes the environment it needs in .venv, and makes it again only when the requirements change.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?=
ARGS ?=

comma := ,
empty :=
space := $(empty) $(empty)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
# One stamp for each set of extras, whatever their order: sets add up in one environment.
TEST_EXTRAS := $(sort test $(subst $(comma), ,$(EXTRAS)))
join_with = $(subst $(space),$(1),$(2))
CLI_STAMP := $(VENV)/.installed-cli
TEST_STAMP := $(VENV)/.installed-$(call join_with,-,$(TEST_EXTRAS))
DOCS_STAMP := $(VENV)/.installed-docs
RELEASE_STAMP := $(VENV)/.installed-release
LINT_STAMP := $(VENV)/.installed-lint

.DEFAULT_GOAL := help
.PHONY: help demo test test-bounds test-sets test-oldest test-newest lint docs docs-links docs-width release benchmarks benchmarks-check clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(CLI_STAMP): $(REQUIREMENTS) | $(VENV)/bin/python
	$(PIP) -e ".[cli]"
	touch $@

# PyTorch comes first and by its exact version alone, so that no other requirement can choose another build of it.
$(TEST_STAMP): $(REQUIREMENTS) | $(VENV)/bin/python
	$(if $(filter torch,$(TEST_EXTRAS)),$(PIP) "$$(grep '^torch==' constraints.txt)")
	$(PIP) -e ".[$(call join_with,$(comma),$(TEST_EXTRAS))]"
	touch $@

$(DOCS_STAMP): $(REQUIREMENTS) | $(VENV)/bin/python
	$(PIP) -e ".[docs]"
	touch $@

$(LINT_STAMP): $(REQUIREMENTS) | $(VENV)/bin/python
	$(PIP) -e ".[test]" ruff pyright
	touch $@

$(RELEASE_STAMP): $(REQUIREMENTS) | $(VENV)/bin/python
	$(PIP) build twine
	touch $@

demo: $(CLI_STAMP)
	$(BIN)/python examples/demo_data.py demo
	$(BIN)/phimap fit demo/cancer.csv --target area_error --holdout 0.2 \
		--model demo/cancer.phimap --report demo/cancer.html
	$(BIN)/phimap fit demo/digits.csv --target digit --kernel gaussian --metric none --features 2048 --holdout 0.2 --standardize global \
		--model demo/digits.phimap --report demo/digits.html
	@echo "Reports: demo/cancer.html and demo/digits.html"

# There is a process of tests for each core, so each takes one thread of BLAS, and one of OpenMP for scikit-learn and torch;
# threads that a test asks for sleep while they wait. Otherwise the processes take the cores from each other, and the tests
# take twice as long. Bytecode is kept, even where the caller's environment says otherwise: the tests start hundreds of
# processes, and each would compile the package anew.
PYTEST_ENVIRONMENT := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE=

test: $(TEST_STAMP)
	$(PYTEST_ENVIRONMENT) $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

# Every index of a compiled loop is looked at, in code of its own.
test-bounds: $(TEST_STAMP)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds $(PYTEST_ENVIRONMENT) $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

# The oldest versions that pyproject.toml allows, and the newest that are published. Only the pinned set is free of warnings.
test-sets: test-oldest test-newest

test-oldest test-newest: test-%: $(VENV)/bin/python
	$(PIP) uv
	rm -rf build/$*
	$(BIN)/uv venv --quiet --python $(BIN)/python build/$*
	$(BIN)/uv pip install --quiet --python build/$*/bin/python --resolution $(if $(filter oldest,$*),lowest-direct,highest) ".[test]"
	$(PYTEST_ENVIRONMENT) build/$*/bin/python -m pytest --numprocesses auto --dist worksteal -W default $(ARGS)

lint: $(LINT_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs-width: docs
	$(BIN)/python docs/check_width.py docs/_build/html

docs-links: docs
	$(BIN)/python docs/check_links.py docs/_build/html

docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html

# Nothing is uploaded. The tests are those of the source distribution, run against what was installed from it.
release: $(RELEASE_STAMP)
	rm -rf dist build/release
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	ls dist/*-py3-none-any.whl
	$(BIN)/python -m zipfile -l dist/*.whl | grep phimap/py.typed
	mkdir -p build/release
	tar --extract --file dist/*.tar.gz --directory build/release --strip-components 1
	$(BIN)/python -m venv build/release/clean
	build/release/clean/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt "$$(ls dist/*.tar.gz)[test]"
	cd build/release && $(PYTEST_ENVIRONMENT) clean/bin/python -m pytest tests --numprocesses auto --dist worksteal $(ARGS)

benchmarks-check: $(TEST_STAMP)
	$(BIN)/python benchmarks/check.py

benchmarks:
	@for script in benchmarks/*.py; do \
		[ -e "$$script" ] || continue; \
		printf '%-32s %s\n' "$$script" "$$(sed -n '1s/^"""//; 1s/"""$$//; 1p' "$$script")"; \
	done

clean:
	rm -rf $(VENV) demo build dist docs/_build docs/api docs/gallery .pytest_cache .ruff_cache
	find src tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
