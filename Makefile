# make demo   install, then drop a pile of primitives with every contact physics there is
# make test   what has to pass before every change: lint, types, import directions, all tests but the slow ones
# make test-all  the slow tests too
# make bench  every experiment with every physics, into OUT; goes on where it stopped
# make docs   the documentation site, build/site/index.html
# make lock   .ci/constraints.txt, the versions that .ci/run installs, from those in VENV
# make results  docs/results.md and the tables of the README, from the stored results

VENV ?= .venv
BIN := $(VENV)/bin
# The first Python that is new enough and can make a virtual environment.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
OUT ?= out/bench
# A file of versions to install, such as .ci/constraints.txt; none: the newest that pyproject.toml allows.
CONSTRAINTS ?=

.PHONY: help venv demo test test-all lint style types imports pytest bench results lock docs
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# make/make/p' Makefile

venv: $(VENV)/.stamp-dev

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python >= 3.11 with the venv module found; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# pip compiles modules one after another, which takes as long as the rest of the installation; some packages have files that are no Python.
install = $(BIN)/python -m pip install --quiet --no-compile $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable $(1) && { $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true; }

# Two stamps, so that the demo does not wait for the development tools.
$(VENV)/.stamp-core: pyproject.toml | $(BIN)/python
	@echo "Installing stickslip and what it needs into $(VENV)"
	@$(call install,.)
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml | $(BIN)/python
	@echo "Installing stickslip, what it needs and the development tools into $(VENV)"
	@$(call install,'.[dev]')
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-docs: pyproject.toml | $(BIN)/python
	@echo "Installing stickslip and what builds its documentation into $(VENV)"
	@$(call install,'.[docs]')
	@touch $(VENV)/.stamp-core $@

demo: $(VENV)/.stamp-core
	$(BIN)/python -m stickslip demo

lint: style
	@$(MAKE) --no-print-directory -j 2 types imports

style: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: venv
	$(BIN)/lint-imports

# Types are checked beside the tests: that takes one core for longer than all other linting.
test: style
	@$(MAKE) --no-print-directory -j 3 types imports pytest SELECT='-m "not slow"'

test-all: style
	@$(MAKE) --no-print-directory -j 3 types imports pytest

pytest: venv
	$(BIN)/python -m pytest $(SELECT) $(PYTEST_ARGS)

bench: $(VENV)/.stamp-dev
	$(BIN)/python -m stickslip bench run all --out $(OUT)
	$(BIN)/python -m stickslip bench report $(OUT)

results: $(VENV)/.stamp-core
	$(BIN)/python benchmarks/readme.py

lock: venv
	$(BIN)/python .ci/lock.py

docs: $(VENV)/.stamp-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"
