# Every target sets up what it needs first; a second run of the set-up compares digests and does nothing.
# Where packages come from is this machine's own setting: see src/moonpool/environments/package_index.py.

PYTHON ?= python3
# Two more than the cores: much of a test is waiting for processes and namespaces to come and go.
WORKERS ?= $$(( $$(nproc) + 2 ))
PYTEST_OPTIONS ?=
BENCH_OPTIONS ?=
VENV := .venv/bin

export PYTHON

# A run reads a test's source once, not once per worker and run, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := PYTHONWARNDEFAULTENCODING=1 $(VENV)/python -m pytest -n $(WORKERS) --dist worksteal -p no:inline_snapshot

.PHONY: setup setup-demo launcher demo test test-all lint bench format docs goldens clean

setup:
	@sh .ci/setup.sh dev

setup-demo:
	@sh .ci/setup.sh examples

# Only where AppArmor restricts user namespaces (Ubuntu 24.04 and newer), and only as root; does nothing elsewhere.
launcher:
	@sh packaging/install-launcher.sh

demo: setup-demo
	@$(VENV)/python examples/demo.py

# For every change. `test-all` has also what is marked slow: published servers, other clients, the conformance suite,
# attacks with each layer taken away, kills and floods in number, benchmarks in short form.
test: setup
	@$(PYTEST) -m "not slow" $(PYTEST_OPTIONS)

test-all: setup
	@$(PYTEST) $(PYTEST_OPTIONS)

lint: setup
	@sh .ci/lint.sh

bench: setup
	@$(VENV)/python -m bench $(BENCH_OPTIONS)

format: setup
	@$(VENV)/ruff check --fix --exit-zero --quiet .
	@$(VENV)/ruff format .

docs: setup
	@$(VENV)/python docs/build.py

goldens: setup
	@$(VENV)/python -m tests.wrappers.regenerate

clean:
	rm -rf build .venv .ruff_cache .import_linter_cache .hypothesis dist
