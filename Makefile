# What a developer does here. `make` alone says what there is.
#
#   PYTHON=python3.12          another Python
#   FUZZTIME=2m                how long each fuzz target runs
#   BOOTSTRAP_SERVERS=h:p      the demo with your Kafka
#   BENCH=fetch                only the benchmarks with that word in their name
#   FAULTS=1000 SEED=7 MINUTES=30 GUARANTEE=at_least_once MILD=1   a longer drill, another one

PYTHON   ?= python3
FUZZTIME ?= 20s
BENCH    ?=
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup setup-node build test test-fast test-kafka fuzz generate demo bench drill fmt clean

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## get everything that is needed to work here: .venv and bin/
	@scripts/check-tools go python
	@scripts/setup-python
	@$(MAKE) --no-print-directory build

setup-node: ## get what the Node client is compiled and tested with: clients/node/node_modules
	@scripts/check-tools node
	@scripts/setup-node

build: ## build bin/pillion, bin/devkafka and bin/realkafka
	go build -o bin/pillion ./cmd/sidecar
	go build -o bin/devkafka ./cmd/devkafka
	go build -o bin/realkafka ./internal/kafkatest/realkafka

test: ## everything: test-fast, every fuzz target, and tests on real Kafka (Java, Maven)
	@scripts/check-tools
	@$(MAKE) --no-print-directory test-fast
	@scripts/fuzz $(FUZZTIME)
	@scripts/test-kafka

test-fast: setup setup-node ## linters and the tests that need no Java
	@scripts/check-tools cc
	@scripts/test-fast

test-kafka: ## only the tests on real Kafka
	@scripts/check-tools
	@$(MAKE) --no-print-directory setup setup-node
	@scripts/test-kafka

fuzz: ## every fuzz target for FUZZTIME
	@scripts/check-tools go
	@scripts/fuzz $(FUZZTIME)

generate: ## write all generated files anew
	go generate ./...

demo: setup setup-node ## a year of flights through workers in Python and Node, one of them killed
	@scripts/setup-python demo
	@scripts/setup-node examples
	.venv/bin/python examples/flights/demo.py $(if $(BOOTSTRAP_SERVERS),--bootstrap-servers $(BOOTSTRAP_SERVERS))

bench: ## all benchmarks, on a real Kafka; figures at the end
	@scripts/check-tools
	@$(MAKE) --no-print-directory setup
	@scripts/bench $(BENCH)

drill: ## break a whole group on three brokers and check that nothing is lost or doubled
	@scripts/check-tools
	@scripts/check-tools cc
	@$(MAKE) --no-print-directory setup setup-node
	@FAULTS='$(FAULTS)' SEED='$(SEED)' MINUTES='$(MINUTES)' GUARANTEE='$(GUARANTEE)' MILD='$(MILD)' scripts/drill

fmt: ## format Go, Python and TypeScript
	gofmt -w $$(find . -name '*.go' -not -path './.*/*' -not -path '*/node_modules/*')
	@scripts/setup-python
	.venv/bin/ruff format clients/python
	.venv/bin/ruff check --fix clients/python
	@scripts/setup-node
	cd clients/node && node_modules/.bin/biome check --write .
	cd bench/node && ../../clients/node/node_modules/.bin/biome check --write .
	cd examples && ../clients/node/node_modules/.bin/biome check --write .

clean: ## remove what was built and fetched (.cache holds Kafka's libraries)
	rm -rf bin .venv .cache demo-data drill-data clients/node/node_modules examples/node_modules bench/node/node_modules clients/node/build clients/node/dist examples/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
