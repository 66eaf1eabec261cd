# Every target does its own set-up and may be run again at any time.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO := .demo
GAME := .demo-game

# Tests wait for brokers and processes a third of the time: three of them share two cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((3 * (os.cpu_count() or 1) + 1) // 2)' 2>/dev/null || echo auto)

# Python keeps what it has compiled: some images switch that off, and then each process of the tests
# compiles memsieve, and each worker all tests, once more.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-game up down verify-compose test check lint types arch unit suite sim chaos fmt golden schemas docs site pictures bench quality lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(READY) ## Create the virtual environment and download the embedding model

$(READY): requirements-dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "missing: Python 3.11 or newer; install it, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "missing: Python 3.11 or newer ($$($(PYTHON) --version) is too old); install it, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "missing: Python's venv module; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "setting up .venv (the first time takes a minute or two)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock \
		|| { echo "missing: packages from the package index; check the network, then run make again"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/memsieve model install
	@touch $@

demo: $(READY) ## Decide on the example events and show what is kept
	@rm -rf $(DEMO)
	@$(BIN)/memsieve run examples/coffee.jsonl examples/team.jsonl examples/trap-door.jsonl --store $(DEMO)
	@echo; echo "DECISIONS, one per event"; echo
	@$(BIN)/memsieve decisions --store $(DEMO)
	@echo; echo "MEMORIES that are kept"; echo
	@$(BIN)/memsieve memory list --store $(DEMO)
	@echo; echo "DEAD LETTERS: records that could not be used"; echo
	@$(BIN)/memsieve dead-letters list --store $(DEMO)
	@echo; echo "WRITTEN to $(CURDIR)/$(DEMO):"; find $(DEMO) -maxdepth 1 -mindepth 1 | sort
	@echo; echo "why: $(BIN)/memsieve explain trap-3 --store $(DEMO)"

demo-game: $(READY) ## From a game's turns to a Memories.md and the block for its prompt
	@rm -rf $(GAME) && mkdir $(GAME)
	@echo "FROM ITS SENTENCES, without a model"; echo
	@$(BIN)/memsieve extract examples/game/turns.jsonl --out $(GAME)/sentences.jsonl
	@$(BIN)/memsieve run $(GAME)/sentences.jsonl --store $(GAME)/sentences --policy memories-md
	@$(BIN)/memsieve memories-md export $(GAME)/Sentences.md --world skerry --store $(GAME)/sentences
	@echo; echo "IN A MODEL'S WORDS, answers played back"; echo
	@$(BIN)/python examples/model/recorded_model.py \
		$(BIN)/memsieve extract examples/game/turns.jsonl --llm --out $(GAME)/worded.jsonl
	@$(BIN)/memsieve run $(GAME)/worded.jsonl --store $(GAME)/worded --policy memories-md
	@$(BIN)/memsieve memories-md export $(GAME)/Memories.md --world skerry --store $(GAME)/worded
	@echo; echo "MEMORIES.MD, its first places"; echo
	@sed -n 1,28p $(GAME)/Memories.md
	@echo; echo "FOR THE PROMPT, in the lighthouse hall"; echo
	@$(BIN)/memsieve search --block --scope skerry/6 --store $(GAME)/worded
	@echo; echo "WRITTEN to $(CURDIR)/$(GAME):"; find $(GAME) -maxdepth 1 -mindepth 1 | sort

up: ## Start Kafka, Qdrant and the services in containers (needs Docker)
	@docker compose version >/dev/null 2>&1 || { echo "missing: Docker with Compose; docs/operations.md says how to run without it"; exit 1; }
	@docker info >/dev/null 2>&1 || { echo "missing: a running Docker daemon; start it, or see docs/operations.md for how to run without it"; exit 1; }
	@docker compose up --build --detach --wait
	@docker compose ps

down: ## Stop them, also those of every profile; their data is kept
	@docker compose --profile '*' down

verify-compose: $(READY) ## Test docker-compose.yml with a project of its own, then remove it (needs Docker)
	@$(BIN)/python -m deploy.verify

test: $(if $(SLICE),,lint types arch) suite ## Run all checks and tests, as a change must pass them; SLICE=forget: only its tests

check: lint types arch unit ## Run the checks and the unit tests, while you work

lint: $(READY) ## Check style, banned calls, spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell memsieve schemas streams tests benchmarks docs examples deploy *.md *.py

types: $(READY) ## Check types, strictly
	@$(BIN)/pyright

arch: $(READY) ## Check the import rules
	@$(BIN)/lint-imports

unit: $(READY) ## Run the tests that need only Python: no process, broker or model
	@$(BIN)/pytest -q -n auto --dist worksteal -m "not process" tests/unit tests/schemas

suite: $(READY) ## Run every test
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(if $(SLICE),$(wildcard tests/*/$(SLICE)))

sim: $(READY) ## Simulate crashes, takeovers and lost answers for three minutes, differently each time
	@$(BIN)/python -m tests.simulation --seconds 90
	@$(BIN)/python -m tests.simulation --seconds 90 --harder

chaos: $(READY) ## Kill, stall and restart services and three brokers for four minutes; CHAOS="--minutes 30"
	@$(BIN)/python -m tests.chaos $(CHAOS)

fmt: $(READY) ## Format, and fix what can be fixed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

golden: $(READY) ## Rewrite the golden decisions; read the diff before you commit it
	@GOLDEN=write $(BIN)/pytest -q tests/golden

schemas: $(READY) ## Regenerate the JSON Schema and AsyncAPI documents
	@$(BIN)/memsieve service schema export schemas/json

docs: $(READY) ## Regenerate the reference pages and the map of the code
	@$(BIN)/python -m tests.support.pages.reference docs/reference
	@$(BIN)/python -m tests.support.pages.architecture

site: $(READY) ## Build the documentation as a site, in build/site
	@$(BIN)/python -m tests.support.pages.site build/site
	@echo "open build/site/html/index.html"

pictures: $(READY) ## Redraw the pictures of docs/web.md (needs Chromium)
	@$(BIN)/python -m tests.support.pages.pictures docs/pictures

BENCH := $(BIN)/python benchmarks
ENCODER = $(if $(wildcard benchmarks/models/encoder.py),$(BENCH)/models/encoder.py --out .bench/encoder.json,true)

bench: $(READY) ## Measure speed (ten minutes); bench-full: all sizes and other libraries (an hour)
	@rm -rf .bench
	@$(BENCH)/throughput/speed.py --rounds 3 --chat 3000 --out .bench/speed.json
	@$(BENCH)/throughput/commands.py --out .bench/commands.json
	@$(BENCH)/throughput/delivery.py --rounds 3 --decisions 10000 --out .bench/delivery.json
	@$(ENCODER)
	@$(BENCH)/throughput/repeats.py --rounds 3 --out .bench/repeats.json
	@$(BENCH)/throughput/given_vectors.py --rounds 3 --events 5000 --out .bench/given-vectors.json
	@$(BENCH)/stores/store_size.py --rounds 2 --out .bench/store-size.json
	@$(BENCH)/kafka/latency.py --seconds 20 --starts 1 --out .bench/latency.json
	@$(BENCH)/kafka/beside_afternoon.py --rounds 3 --events 300 --out .bench/afternoon.json
	@$(BENCH)/kafka/workers.py --out .bench/workers.json
	@$(BENCH)/stores/memories_md.py --rounds 3 --out .bench/memories-md.json
	@OPENBLAS_NUM_THREADS=1 $(BENCH)/stores/consolidation.py --memories 5000 --graded 500 --out .bench/consolidation.json
	@$(BENCH)/stores/location_memories.py --rounds 1 --out .bench/location-memories.json
	@$(BENCH)/stores/forgetting.py --memories 20000 --out .bench/forgetting.json
	@$(BENCH)/stores/game.py --out .bench/game.json
	@$(BENCH)/stores/loading.py --rounds 1 --out .bench/loading.json
	@$(BENCH)/gate.py .bench

.PHONY: bench-full
bench-full: $(READY)
	@rm -rf .bench
	@$(BENCH)/throughput/speed.py --out .bench/speed.json
	@$(BENCH)/throughput/commands.py --out .bench/commands.json
	@$(BENCH)/throughput/delivery.py --out .bench/delivery.json
	@$(ENCODER)
	@$(BENCH)/models/precisions.py --out .bench/precisions.json
	@$(BENCH)/throughput/repeats.py --out .bench/repeats.json
	@$(BENCH)/throughput/given_vectors.py --out .bench/given-vectors.json
	@$(BENCH)/stores/store_size.py --full --out .bench/store-size.json --plot benchmarks/results/store-size.svg
	@$(BENCH)/kafka/latency.py --out .bench/latency.json
	@$(BENCH)/kafka/beside_afternoon.py --out .bench/afternoon.json
	@$(BENCH)/kafka/workers.py --rounds 5 --events 400 --out .bench/workers.json
	@$(BENCH)/stores/memories_md.py --out .bench/memories-md.json
	@$(BENCH)/stores/location_memories.py --out .bench/location-memories.json
	@$(BENCH)/stores/forgetting.py --memories 1000000 --out .bench/forgetting.json
	@$(BENCH)/stores/game.py --out .bench/game.json
	@$(BENCH)/stores/loading.py --out .bench/loading.json
	@$(BENCH)/throughput/beside_libraries.py --install --out .bench/libraries.json
	@OPENBLAS_NUM_THREADS=1 $(BENCH)/stores/consolidation.py --peers --out .bench/consolidation.json
	@$(BENCH)/gate.py .bench --keep

quality: $(READY) ## Measure what is found and what is lost, on labelled pairs
	@$(BIN)/python -m benchmarks.quality

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-strip-extras pyproject.toml

lock: $(READY) ## Resolve the dependencies again
	@$(BIN)/python -m pip install --quiet uv
	@$(COMPILE) --extra api --extra kafka --extra mcp --extra otel --extra web --upgrade -o requirements.lock
	@$(COMPILE) --extra dev --constraint requirements.lock -o requirements-dev.lock

clean: ## Remove what the other targets created
	@rm -rf .venv $(DEMO) $(GAME) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
