# make demo | test | lint | campaign-NAME. Needs Python >= 3.11 with venv, and git. pip keeps to its own configuration.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint wheel

demo: $(VENV)/.installed
	$(BIN)/taskforge demo --out .demo/corpus

test: $(VENV)/.dev
	@{ .ci/start-dockerd && $(BIN)/taskforge images base; } || \
	  echo "the tests of the docker sandbox will fail: start a daemon, or run this as root" >&2
	$(BIN)/pytest

wheel: $(VENV)/.dev
	$(BIN)/pytest tests/e2e/test_wheel.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

campaign-%: $(VENV)/.dev
	$(BIN)/python -m tests.campaigns.$*

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is missing or older than 3.11: run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

# The dev group is read from pyproject.toml: pip learnt --group only in 25.1.
$(VENV)/.dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"]))' > $(VENV)/dev.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/dev.txt
	@touch $@
