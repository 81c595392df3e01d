# Every target works alone on a fresh machine: Python 3.11 to 3.13, g++, make and perl are all it needs.
#   make setup      the virtual environment, with presil in it
#   make report     the main job: run the quick suite, write the PDF
#   make test       the tests that take seconds; make test-all: the slow ones too
#   make lint       style, types, layers, SystemVerilog
#   make bench      the benchmarks (pytest-benchmark)
# Other choices: make PYTHON=python3.12 VENV=/elsewhere JOBS=4 report

CANDIDATES := python3 python3.13 python3.12 python3.11
FITS = $(shell $(1) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $(1))
PYTHON ?= $(firstword $(foreach python,$(CANDIDATES),$(call FITS,$(python))))
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
RUNS ?= runs

BIN := $(VENV)/bin
# The environment is made anew when the dependencies change: its stamp is named by what it was made from.
READY := $(VENV)/ready-$(shell cksum < pyproject.toml | cut -d' ' -f1)

.PHONY: setup report test test-all lint lint-rtl bench clean
.DEFAULT_GOAL := test

setup: $(READY)

$(READY):
	@test -n "$(PYTHON)" || { echo "presil needs Python 3.11, 3.12 or 3.13; name one with PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@rm -f $(VENV)/ready-*
	@touch $@

report: $(READY)
	@# Code 1: a workload has no right kernel. The report says which, so it is written before the target fails.
	$(BIN)/presil run suites/quick.yaml --jobs $(JOBS) --output $(RUNS); code=$$?; \
	if [ $$code -gt 1 ]; then exit $$code; fi; \
	$(BIN)/presil replicate --row SYS-TPU1 --row SYS-GEM --row SYS-SCS -o $(RUNS) >/dev/null; \
	$(BIN)/presil report $(RUNS) --output $(RUNS)/quick.pdf && exit $$code

test: $(READY)
	$(BIN)/pytest -q -m "not slow" -n $(JOBS)

test-all: $(READY)
	$(BIN)/pytest -q -n $(JOBS)

bench: $(READY)
	$(BIN)/pytest -q tests/benchmarks --benchmark-enable --benchmark-only

lint: $(READY) lint-rtl
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Verilator with all warnings, and slang.
lint-rtl: $(READY)
	$(BIN)/python -m presil.simulators.rtl.lint

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
