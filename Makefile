# Every target sets up what it needs first; a second run of the set-up compares digests and does nothing.
# Where packages come from is this machine's own setting: see src/moonpool/environments/package_index.py.

PYTHON ?= python3
WORKERS ?= 2
PYTEST_OPTIONS ?=
BENCH_OPTIONS ?=
VENV := .venv/bin

export PYTHON

.PHONY: setup setup-demo launcher demo test lint bench format goldens clean

setup:
	@sh .ci/setup.sh dev

setup-demo:
	@sh .ci/setup.sh examples

# Only where AppArmor restricts user namespaces (Ubuntu 24.04 and newer), and only as root; does nothing elsewhere.
launcher:
	@sh packaging/install-launcher.sh

demo: setup-demo
	@$(VENV)/python examples/demo.py

test: setup
	@PYTHONWARNDEFAULTENCODING=1 $(VENV)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_OPTIONS)

lint: setup
	@sh .ci/lint.sh

bench: setup
	@$(VENV)/python -m bench $(BENCH_OPTIONS)

format: setup
	@$(VENV)/ruff check --fix --exit-zero --quiet .
	@$(VENV)/ruff format .

goldens: setup
	@$(VENV)/python -m tests.wrappers.regenerate

clean:
	rm -rf .venv .ruff_cache .import_linter_cache .hypothesis build dist
