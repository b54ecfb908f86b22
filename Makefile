PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help venv demo test clean

help:
	@echo "make demo   set up, then prove and refute real kernels (kcheck demo)"
	@echo "make test   set up, then run every check and test"
	@echo "make clean  remove what make made"

venv: $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/kcheck demo

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/lit -q lit_tests
	$(BIN)/pytest -q -n 2

# stamps: a set-up is repeated only when pyproject.toml changes
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# The tests compile TileLang programs for real. torch only has to be importable: where pip's index
# (or PIP_EXTRA_INDEX_URL) has a CPU build of this release, pip prefers it to the one for CUDA.
$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet tilelang==0.1.15 --editable '.[dev,tilelang]'
	command -v nvcc >/dev/null || $(BIN)/python -m pip install --quiet --editable '.[nvcc]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
