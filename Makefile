# What a developer does here. `make` alone says what there is.
#
#   PYTHON=python3.12          another Python
#   FUZZTIME=2m                how long each fuzz target runs
#   BOOTSTRAP_SERVERS=h:p      the demo with your Kafka
#   BENCH=fetch                only the benchmarks with that word in their name

PYTHON   ?= python3
FUZZTIME ?= 20s
BENCH    ?=
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup build test test-fast test-kafka fuzz generate demo bench fmt clean

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## get everything that is needed to work here: .venv and bin/
	@scripts/check-tools go python
	@scripts/setup-python
	@$(MAKE) --no-print-directory build

build: ## build bin/pillion, bin/devkafka and bin/realkafka
	go build -o bin/pillion ./cmd/sidecar
	go build -o bin/devkafka ./cmd/devkafka
	go build -o bin/realkafka ./internal/kafkatest/realkafka

test: ## everything: test-fast, every fuzz target, and tests on real Kafka (Java, Maven)
	@scripts/check-tools
	@$(MAKE) --no-print-directory test-fast
	@scripts/fuzz $(FUZZTIME)
	@scripts/test-kafka

test-fast: setup ## linters and the tests that need no Java
	@scripts/check-tools cc
	@scripts/test-fast

test-kafka: ## only the tests on real Kafka
	@scripts/check-tools
	@$(MAKE) --no-print-directory setup
	@scripts/test-kafka

fuzz: ## every fuzz target for FUZZTIME
	@scripts/check-tools go
	@scripts/fuzz $(FUZZTIME)

generate: ## write all generated files anew
	go generate ./...

demo: setup ## a year of flights through a worker that is killed twice
	@scripts/setup-python demo
	.venv/bin/python examples/flights/demo.py $(if $(BOOTSTRAP_SERVERS),--bootstrap-servers $(BOOTSTRAP_SERVERS))

bench: ## all benchmarks, on a real Kafka; figures at the end
	@scripts/check-tools
	@$(MAKE) --no-print-directory setup
	@scripts/bench $(BENCH)

fmt: ## format Go and Python
	gofmt -w $$(find . -name '*.go' -not -path './.*/*' -not -path '*/node_modules/*')
	@scripts/setup-python
	.venv/bin/ruff format clients/python
	.venv/bin/ruff check --fix clients/python

clean: ## remove what was built and fetched (.cache holds Kafka's libraries)
	rm -rf bin .venv .cache demo-data
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
