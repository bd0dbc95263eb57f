# Everything is run from here; `make` alone lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
STAGE := .ci/stage

.PHONY: help venv test lint format unit e2e docs demo bench bench-placement bench-trace kind-config kind-image kind kind-muster kind-test kind-down clean

help: ## this list
	@echo "Muster: gang scheduling for the stock kube-scheduler. Targets:"
	@sed -nE 's/^([a-z][a-z0-9-]*):.*## (.*)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

venv: $(INSTALLED) ## the Python environment, with pinned versions

# a checked version first: pip's own message would not name the cause
$(INSTALLED): pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[dev]'
	@touch $@

test: ## all tests, e2e included; what CI runs
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory e2e

lint: $(INSTALLED) ## format, style, types, direction of imports; changes nothing
	@$(STAGE) format $(BIN)/ruff format --check .
	@$(STAGE) style $(BIN)/ruff check .
	@$(STAGE) types $(BIN)/mypy
	@$(STAGE) imports $(BIN)/lint-imports

format: $(INSTALLED) ## mend format and style in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit: $(INSTALLED) ## tests without a cluster
	@$(STAGE) unit $(BIN)/python -m pytest tests --numprocesses=auto --dist=worksteal --durations=5

e2e: $(INSTALLED) ## tests on a real control plane; K8S=1.34 takes the oldest supported version
	@$(STAGE) e2e $(BIN)/python -m pytest e2e --numprocesses=auto --dist=loadfile --durations=40

docs: $(INSTALLED) ## write the generated pages, dashboard and alerts anew
	@$(BIN)/python -m docs.generate

demo: $(INSTALLED) ## two gangs compete for 32 GPU nodes, shown live; KEEP=1 leaves the cluster running
	@$(BIN)/python -m e2e.demo

bench: $(INSTALLED) ## Muster beside kube-scheduler and its native gangs, and what it costs others
	@$(BIN)/python -m e2e.bench

bench-placement: $(INSTALLED) ## GPUs that get work on the Alibaba openb trace, under six policies and ours; needs the trace
	@$(BIN)/python -m tests.perf.openb

TRACES ?= ../shared/data/traces
OPENB := $(TRACES)/alibaba-openb-2023
REPLAY := $(BIN)/python -m extender.sim trace replay

SHOCKWAVE := $(TRACES)/shockwave/tacc_32gpus_120jobs.csv
SIA := $(TRACES)/sia/philly_workload-1.csv --longest 28800
TIRESIAS := $(TRACES)/tiresias/60_job.csv
OPENB_FILES := $(OPENB)/openb_pod_list_default.csv $(OPENB)/openb_node_list_gpu_node.csv
SEEDS ?= 1

bench-trace: $(INSTALLED) ## traces replayed (simulated) under Muster and models of others, reports in build/trace; needs the traces
	@$(REPLAY) $(SHOCKWAVE) --hosts 4 --load 0.48 --seeds $(SEEDS) --png --out build/trace/shockwave-light
	@$(REPLAY) $(TIRESIAS) --hosts 4 --load 0.5 --seeds $(SEEDS) --png --out build/trace/tiresias-light
	@$(REPLAY) $(SIA) --hosts 16 --load 0.62 --seeds $(SEEDS) --png --out build/trace/sia-light
	@$(REPLAY) $(SHOCKWAVE) --hosts 4 --load 1.2 --seeds $(SEEDS) --ablations --png --out build/trace/shockwave
	@$(REPLAY) $(TIRESIAS) --hosts 2 --load 2 --seeds $(SEEDS) --png --out build/trace/tiresias
	@$(REPLAY) $(SIA) --hosts 16 --load 2 --seeds $(SEEDS) --png --out build/trace/sia
	@$(REPLAY) $(SIA) --hosts 8 --load 3 --seeds $(SEEDS) --png --out build/trace/sia-narrow
	@$(REPLAY) $(OPENB_FILES) --load 0.05 --longest 86400 --seeds $(SEEDS) --png --out build/trace/openb

kind-config: ## print the configuration for `kind create cluster --config`
	@cat manifests/kind/kind.yaml

kind-image: $(INSTALLED) ## build the node image of kind from Debian packages and Go modules, into ~/.cache/muster; once
	@$(BIN)/python -m e2e.kind image

kind: $(INSTALLED) ## a kind cluster of five nodes; NODE_IMAGE=stock|own chooses, by default stock where it can be pulled
	@$(BIN)/python -m e2e.kind up

kind-muster: $(INSTALLED) ## the same, with Muster on it: its image built and loaded, `kubectl apply -k manifests`
	@$(BIN)/python -m e2e.kind muster

kind-test: $(INSTALLED) ## what only real nodes can show, on that cluster
	@KIND_TESTS=1 $(BIN)/python -m pytest e2e/kind --durations=10

kind-down: $(INSTALLED) ## remove what `make kind` made: cluster, images, and the Docker engine if it started one
	@$(BIN)/python -m e2e.kind down

clean: ## remove the environment and all caches in this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
