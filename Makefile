# Each target does its own set-up; only Python 3.11+ and a package index are needed.
#     make demo     train on 5,000 digits, pictures and a summary in runs/demo
#     make test     the tests
#     make browser-test   the explorer's tests, in Chromium (installed if there is none)
#     make paper    every figure of the paper on a small run, in build/paper
#     make docs     the documentation site, in build/docs
#     make docs-pictures RUN=runs/mnist NAME=mnist   a run's figures into the pages of docs
#     make package  sdist and wheel in dist/, installed and used in fresh environments
#     make reproduce      every number of docs into docs/measurements; hours (QUICK=1: a small check)
#     make lint     formatter, linter, type checker and import contracts
#     make check    both of these: what pre-commit and CI run
#     make venv     only the set-up
#     make clean    remove the virtual environment and caches (never runs/)

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
EXTRAS := all,dev,docs
PYTEST_ARGS ?=
PAPER ?= build/paper
DOCS ?= build/docs
REPRODUCE ?= build/reproduce
DIST ?= dist

.DEFAULT_GOAL := help
.PHONY: help venv demo test browser-test paper docs docs-pictures package reproduce lint check clean

help:
	@sed -n 's/^#     //p' Makefile

# The stamp is written last, so an interrupted set-up is done again.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON=..." >&2; exit 1; }
	@echo "setting up $(VENV) (minutes the first time, torch is large)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

venv: $(STAMP)

demo: $(STAMP)
	$(BIN)/transop demo --out runs/demo

# One thread per worker: the tests' arrays are small, two workers use two cores better.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(PYTEST_ARGS)

browser-test: $(STAMP)
	@.ci/chromium $(BIN)/python
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser $(PYTEST_ARGS)

# Some minutes on two quiet cores; the limit is there to notice a figure that grows.
paper: $(STAMP)
	mkdir -p $(PAPER)
	cd $(PAPER) && timeout 1200 $(abspath $(BIN))/transop paper all --scale quick

# Strict: a broken link or an unknown name is an error. Needs no internet, to build or to read.
docs: $(STAMP)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs $(DOCS)

docs-pictures: $(STAMP)
	$(BIN)/python benchmarks/docs_pictures.py $(RUN) $(NAME)

package: $(STAMP)
	.ci/package $(PYTHON) $(DIST) $(abspath $(VENV))

# GIVE="--give celeba=FOLDER --give fruits=FILE" measures what needs those data too. Stopped, it
# goes on where it was; the quick check always starts anew.
reproduce: $(STAMP)
	$(if $(QUICK),rm -rf $(REPRODUCE))
	$(BIN)/transop paper reproduce $(if $(QUICK),--quick --out $(REPRODUCE)) $(GIVE)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
