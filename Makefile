# Each target does its own set-up, in .venv: with uv if it is on PATH, else with venv and pip.
# A second start finds the stamp files in .venv and is instant.

PY := .venv/bin/python
UV := $(shell command -v uv 2>/dev/null)

# Arguments for pytest: make test ARGS='-k agent -x'
ARGS ?=

# `make check` fails where the package outgrows its bars; `make check STRICT=` only lists them.
STRICT ?= --strict

# The least share of lines and branches that the tests must reach, in percent.
MIN_COVERAGE := 97
# Tests of kernels, which run compiled and as plain Python.
PLAIN := tests/kernels tests/reward/test_scaled.py tests/test_slates.py tests/test_policies_formula.py

MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Build tools (hatchling, setuptools, ...) are held to the tested versions too. Older pips take
# the first of the two, newer ones the second.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export UV_BUILD_CONSTRAINT := constraints.txt
# uv trusts the certificates that this machine trusts, as pip and curl do.
export UV_SYSTEM_CERTS := 1
# A shell's own virtual environment is not ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

ifneq ($(UV),)
INSTALL := uv pip install --quiet --python $(PY) -c constraints.txt
else
# A virtual environment that uv made earlier has no pip. Modules are compiled when they are first
# imported, not all at once: it halves the set-up.
INSTALL := { $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null; } && \
    $(PY) -m pip install -qq --no-compile -c constraints.txt
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check house bench faults load serve soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: .venv/.stamp-dev ## everything a developer needs, in .venv

# Both of the paper's studies at full size, then ours beside the paper's, on synthetic worlds. A
# second start finds them done and only draws them again; `make demo FRESH=--fresh` runs them anew.
FRESH ?=
demo: .venv/.stamp-study ## the paper's two studies, and ours: build/demo/movies/report.html, ...
	@.venv/bin/bridle study movies --out build/demo/movies $(FRESH)
	@.venv/bin/bridle study warfarin --out build/demo/warfarin $(FRESH)
	@.venv/bin/bridle study frontier --headline --out build/demo/frontier $(FRESH)
	@echo
	@echo "Open these in a browser. All worlds are synthetic: made up by bridle."
	@echo "  build/demo/movies/report.html"
	@echo "  build/demo/warfarin/report.html"
	@echo "  build/demo/frontier/report.html, and its figure headline.png"

# Coverage cannot see into compiled kernels, so their tests run a second time as plain Python
# (NUMBA_DISABLE_JIT=1) and both runs count together. With ARGS only what you name is run.
test: .venv/.stamp-dev ## run the tests
	@mkdir -p build; rm -f build/.coverage*; start=$$(date +%s); \
	if [ -n "$(ARGS)" ]; then \
	    $(PY) -m pytest -q $(ARGS); \
	else \
	    COVERAGE_FILE=build/.coverage.compiled $(PY) -m pytest -q -n auto --dist worksteal --cov=bridle --cov=bridle_studies --cov-report= \
	    && echo "the kernels once more, as plain Python:" \
	    && COVERAGE_FILE=build/.coverage.plain NUMBA_DISABLE_JIT=1 \
	        $(PY) -m pytest -q -n auto --dist worksteal $(PLAIN) --cov=bridle.kernels --cov-report= \
	    && COVERAGE_FILE=build/.coverage $(PY) -m coverage combine -q build \
	    && COVERAGE_FILE=build/.coverage $(PY) -m coverage report --fail-under=$(MIN_COVERAGE); \
	fi; \
	status=$$?; \
	echo "tests took $$(( $$(date +%s) - start )) s (set-up not counted)"; \
	exit $$status

check: .venv/.stamp-dev ## lint, format, types, layers, and the shape of the package
	@$(PY) -m ruff check --quiet
	@$(PY) -m ruff format --check --quiet || { echo "run: $(PY) -m ruff format" >&2; exit 1; }
	@$(PY) -m mypy $(wildcard src studies/src tests benchmarks browser examples faults tools)
	@.venv/bin/lint-imports --no-logo
	@$(PY) -m tools.house $(STRICT)

house: .venv/.stamp-dev ## the packages and their imports as a picture: docs/images/house.svg
	@$(PY) -m tools.house --brief --picture docs/images/house.svg

bench: .venv/.stamp-bench ## compare with other libraries, time limits: build/bench.json, ...
	@mkdir -p build
	@$(PY) -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("contextualbandits"))' \
	    || echo "contextualbandits could not be built here (see .venv/contextualbandits.log): going on without it"
	@$(PY) -m benchmarks

faults: .venv/.stamp-dev ## kills, power cuts, disk errors, a database that stops: build/faults.json
	@mkdir -p build; $(PY) -m faults $(ARGS)

load: .venv/.stamp-dev ## the service under load: build/load.json
	@mkdir -p build; $(PY) -m benchmarks.serviceload $(ARGS)

# Made-up worlds, in a file that goes away. Your own: .venv/bin/bridle serve --db FILE
serve: .venv/.stamp-dev ## the service and its pages, as a demonstration; ARGS='--port 8001'
	@.venv/bin/bridle serve --demo $(ARGS)

soak: .venv/.stamp-dev ## 10,000 examples for each property, and the slow tests
	@BRIDLE_SOAK=1 $(PY) -m pytest -q -m 'soak or hypothesis' $(ARGS)

clean: ## remove .venv and everything else that make made
	@rm -rf .venv build dist .benchmarks .coverage .coverage.* .hypothesis .import_linter_cache \
	    .mypy_cache .pytest_cache .ruff_cache htmlcov
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# --- set-up -------------------------------------------------------------------------------

# The first Python that is new enough and can make a virtual environment. uv can do without.
.venv/bin/python:
	@for python in python3 python3.13 python3.12 python3.11; do \
	    if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -n "$(UV)" ]; then \
	    uv venv --quiet --clear --python "$$($${found:-false} -c 'import sys; print(sys.executable)' || echo '>=3.11')" .venv; \
	elif [ -n "$$found" ]; then \
	    $$found -m venv --clear .venv; \
	else \
	    echo "bridle needs Python 3.11 or later with its venv module, or uv: none is on PATH." >&2; \
	    exit 1; \
	fi

.venv/.stamp-base: pyproject.toml constraints.txt | .venv/bin/python
	@echo "setting up .venv: bridle ..."
	@$(INSTALL) -e .
	@touch $@

.venv/.stamp-study: pyproject.toml studies/pyproject.toml constraints.txt | .venv/bin/python
	@echo "setting up .venv: bridle and what its studies need ..."
	@$(INSTALL) -e '.[study]' -e ./studies
	@touch .venv/.stamp-base $@

.venv/.stamp-dev: pyproject.toml studies/pyproject.toml constraints.txt | .venv/bin/python
	@echo "setting up .venv: bridle and the developer's tools ..."
	@$(INSTALL) -e '.[dev]' -e ./studies
	@touch .venv/.stamp-base .venv/.stamp-study $@

# contextualbandits is compiled on the spot; where that fails, the others are compared.
.venv/.stamp-bench: pyproject.toml studies/pyproject.toml constraints.txt | .venv/bin/python
	@echo "setting up .venv: bridle and the libraries it is compared with ..."
	@$(INSTALL) -e '.[bench,study]' -e ./studies
	@$(INSTALL) -e '.[bench-source]' >.venv/contextualbandits.log 2>&1 || true
	@touch .venv/.stamp-base $@
