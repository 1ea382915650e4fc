# Needs Python 3.11 or newer, Go, git and make; everything else comes with `make setup`.

PYTHON ?= python3
PYTEST_ARGS ?=
LOCK_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPILE = $(LOCK)/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
	--no-emit-trusted-host --no-emit-find-links --no-annotate --no-header --unsafe-package kbind $(LOCK_ARGS)
LOCK := .cache/lock

# Stamps: what a finished step leaves behind, so that it is repeated only when its inputs change.
PACKAGES := $(VENV)/.packages
EDITABLE := $(VENV)/.editable

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick lint golden bench fidelity mutants fuzz control-plane lock clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r name says; do printf '  make %-14s %s\n' "$$name" "$$says"; done

setup: $(EDITABLE) ## Make .venv with the pinned packages and kbind itself

$(PACKAGES): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kbind needs Python 3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --require-hashes --requirement requirements/dev.txt
	@touch $@

$(EDITABLE): $(PACKAGES) pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## Show kbind at work, on two clusters in memory
	$(BIN)/kbind demo

test: setup control-plane ## Run all tests
	$(BIN)/pytest -n auto --dist loadfile $(PYTEST_ARGS)

quick: setup ## Run the tests that need no real API server
	$(BIN)/pytest -m "not real" $(PYTEST_ARGS)

lint: setup ## Check format, style, types, imports and the bundled rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/kbind rules check

golden: setup ## Write the golden files anew; read the difference before you commit it
	$(BIN)/pytest -m "not real" -k golden --snapshot-update $(PYTEST_ARGS)

bench: setup control-plane ## Measure syncing beside a bare client, discovery of many CRDs, unbinding
	$(BIN)/python -m tests.bench.sync
	$(BIN)/python -m tests.bench.discovery
	$(BIN)/python -m tests.bench.unbinding

fidelity: setup control-plane ## Compare what the schema sources keep of public CRDs
	$(BIN)/python -m tests.fidelity $(FIDELITY)

control-plane: setup ## Build etcd and kube-apiserver into the cache, minutes the first time
	$(BIN)/python -m kbind.testing.binaries

mutants: setup ## Break every bundled rule and count which breaks the tests catch
	$(BIN)/python -m tests.mutants $(MUTANTS)

fuzz: setup control-plane ## Play two hundred sequences by chance on real servers
	$(BIN)/python -m tests.model.fuzz $(FUZZ)

lock: ## Pin what pyproject.toml asks for; LOCK_ARGS=--upgrade looks for newer packages
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip --disable-pip-version-check --quiet install pip-tools==7.6.2
	$(COMPILE) --extra dev --build-deps-for editable --output-file requirements/dev.txt pyproject.toml
	$(COMPILE) --constraint requirements/dev.txt --output-file requirements/konnector.txt pyproject.toml

clean: ## Remove what was made here; the cache of control planes stays
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -rf .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
