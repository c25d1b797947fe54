# Targets for people; each says what it does with `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
REPORTS := build/reports

.PHONY: help setup demo test check conformance proto lock clean

help: ## say what the targets do
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the environment .venv from the hashed lock

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@echo 'making $(VENV) from requirements/dev.txt'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: setup ## show the main job on the embedded simulated host (as root: with real disks and mounts)
	@if [ "$$(id -u)" = 0 ]; then scripts/programs; fi
	$(BIN)/harvester-companion demo

test: setup ## run the tests; as root with the kernel tier, installing its programs (Debian)
	@mkdir -p $(REPORTS)
	@if [ "$$(id -u)" = 0 ]; then scripts/programs; fi
	$(BIN)/python scripts/run_tests.py --junit $(REPORTS)/test.xml

check: setup ## lint, types, contracts between the rooms, generated files, sizes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/proto.py --check
	$(BIN)/python scripts/house.py

conformance: setup ## the real API server, kubectl and csi-sanity against the driver as a process (as root)
	@mkdir -p $(REPORTS)
	scripts/conformance

proto: setup ## generate csi/_pb from proto/csi.proto
	$(BIN)/python scripts/proto.py

lock: setup ## write requirements/*.txt anew from pyproject.toml
	scripts/lock

clean: ## remove what the targets made in the tree
	rm -rf $(VENV) build *.egg-info
