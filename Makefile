# Ebbtide. `make help` is the index: a target is documented there, or it is internal.
# Every target sets up what it needs, may be interrupted, and may be repeated.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
CLUSTER ?= own
CLUSTERS := own current
BIN := .venv/bin
TESTS := $(BIN)/python scripts/run_tests.py

# Torch on two cores: one thread for each of several workers is faster than two for each.
export OMP_NUM_THREADS ?= 1

##@ Start here
.PHONY: help setup demo test quick

help: ## Show this index
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: venv system controlplane ## Set everything up: environment, system packages, control plane

demo: setup ## Train the digits example through revocations on a real control plane, live
	@PYTHONPATH=$(CURDIR)/e2e $(BIN)/python -m world.demo

test: venv ## Run every test, the end-to-end ones on a real control plane included
	@$(TESTS) all

quick: venv lint types imports ## Run what finds most mistakes in under a minute
	@EBBTIDE_EXAMPLES=quick $(TESTS) unit laws

##@ Parts of `make test`
.PHONY: fmt lint types imports unit laws handlers runtime architecture e2e

fmt: venv ## Format the code and repair what the linter can
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

lint: venv ## Check style and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: venv ## Check types, strictly
	@$(BIN)/mypy operator/src/ebbtide tests scripts
	@$(BIN)/mypy e2e examples bench

imports: venv ## Check which package may import which
	@$(BIN)/lint-imports --no-logo

unit: venv ## Tests of single functions and classes
	@$(TESTS) unit

laws: venv ## Properties that hold for all inputs
	@$(TESTS) laws

handlers: venv ## The operator in-process on an emulated API server
	@$(TESTS) handlers

runtime: venv ## Real worker processes that lose and regain members
	@$(TESTS) timed runtime

architecture: venv ## Layout, sizes, import contracts, words, documents
	@$(TESTS) architecture

e2e: venv ## End to end, on our own control plane or on yours (CLUSTER=current uses KUBECONFIG)
	@$(if $(filter $(CLUSTER),$(CLUSTERS)),,$(error CLUSTER is "$(CLUSTER)"; it may be: $(CLUSTERS)))
	@EBBTIDE_CLUSTER=$(CLUSTER) $(TESTS) plans jobs e2e

##@ Benches: one table each, with bar and peer beside each figure, and build/bench/*.json
.PHONY: bench-models bench-solver bench-policy bench-runtime

bench-models: venv ## The models against their bars and plain peers, on data that no fit saw
	@PYTHONPATH=$(CURDIR)/bench $(BIN)/python -m models

bench-solver: venv ## The pool solver against HiGHS, CP-SAT and CBC in one run
	@PYTHONPATH=$(CURDIR)/bench $(BIN)/python -m solver

bench-policy: venv ## Deadline policies on public traces of spot capacity, against the best possible
	@PYTHONPATH=$(CURDIR)/bench $(BIN)/python -m policy

bench-runtime: venv ## The trainer runtime against its peers, real processes (PARTS="recovery warm")
	@PYTHONPATH=$(CURDIR)/bench:$(CURDIR)/tests $(BIN)/python -m runtime $(PARTS)

##@ Upkeep
.PHONY: controlplane crds models lock coverage verify ci clean

controlplane: venv ## Build etcd and the Kubernetes servers, once, into a cache (KUBERNETES_VERSION=...)
	@PYTHONPATH=$(CURDIR)/e2e $(BIN)/python -m world.build

crds: venv ## Render the custom resource definitions into crds/, and docs/api.md
	@$(BIN)/python -m ebbtide.cli crds --out crds
	@$(BIN)/python -m ebbtide.cli crds --reference docs/api.md

models: venv ## Fit the embedded models anew and make the catalogue from tests/data
	@$(BIN)/python scripts/make_models.py

lock: venv ## Lock the dependencies anew, with hashes and without the address of any index
	@scripts/lock.sh

coverage: venv ## Measure branch coverage and hold it to the floors of CONTRIBUTING.md
	@$(TESTS) --coverage unit laws handlers timed runtime
	@$(BIN)/python scripts/coverage_floors.py

verify: crds models fmt ## Regenerate what is generated, check all, and demand a clean tree
	@$(MAKE) lint types imports architecture
	@scripts/check_clean.sh

ci: ## Run what CI runs, nothing more
	@.ci/run

clean: ## Remove build output and caches; .venv and the control plane outside the tree stay
	@rm -rf .run build dist htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache .coverage .coverage.*
	@find operator e2e tests scripts examples bench -name __pycache__ -type d -prune \
	  -exec rm -rf {} + 2>/dev/null || true

# ------------------------------------------------------------------------- internal: the set-up
.PHONY: venv system

venv:
	@PYTHON="$(PYTHON)" scripts/setup.sh

system:
	@e2e/setup-system.sh
