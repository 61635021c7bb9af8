# make demo   install, then audit images and texts, and train with and without (about two minutes)
# make test   install, lint, type-check, run the tests and every documented example

PYTHON ?= python3
VENV   ?= .venv
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
else
SCRIPTS := bin
endif
BIN    := $(VENV)/$(SCRIPTS)
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# A process per core, four at most, each with the tests of whole files, in the order of collection:
# docstrings come last, so that no process waits long for the others.
WORKERS ?= --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Tests of the core, for an environment that has torch, numpy and pytest only.
CORE_TESTS := $(addprefix tests/,$(addsuffix .py,test_against_naive test_bad_batches test_functional \
	test_indexed_dataset test_layers test_package test_resume test_without_extras \
	state/test_sample_ids state/test_state))

# Tests whose coverage of the core is measured, see [tool.coverage] in pyproject.toml for the floor.
COVERED_TESTS := tests/state $(addprefix tests/,$(addsuffix .py,test_against_naive test_bad_batches \
	test_bounded_split test_functional test_groups test_histogram test_hyperparameters \
	test_indexed_dataset test_known_labels test_label_correction test_loss test_options \
	test_package test_precision_and_device test_registry test_resume test_run_watch \
	test_script_fit))

.PHONY: help demo docs notebooks test test-slow lint types core coverage covered pytest format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       install into $(VENV), then audit images and texts, and train with and without"
	@echo "make test       install into $(VENV), then lint, type-check and test"
	@echo "make core       the tests of the core, with no extras installed"
	@echo "make coverage   the tests of the core, which must cover 95 % of it"
	@echo "make docs       build the documentation site into site/"
	@echo "make notebooks  run the notebooks of the tutorials and store their outputs"
	@echo "make test-slow  the tests that take minutes"
	@echo "make format     put the code in shape"
	@echo "make clean      remove $(VENV) and caches"

# A stamp per set of extras: installing again happens only when what to install has changed.
$(VENV)/installed-%: pyproject.toml constraints.txt
	@echo "== installing discrimloss[$*] into $(VENV)"
	@test -e $(BIN)/activate || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@

demo: $(VENV)/installed-demo
	@echo "== discrimloss demo"
	@$(BIN)/discrimloss demo --overwrite

# A dead link or a warning is an error. `make test` builds the site too, in tests/docs.
docs: $(VENV)/installed-dev
	@echo "== mkdocs: site/index.html (search needs a server: python -m http.server --directory site)"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

notebooks: $(VENV)/installed-dev
	@$(BIN)/python tools/run_notebooks.py

# mypy keeps one core busy, and the first tests mostly wait for imports: both at once.
test: lint
	@$(MAKE) --no-print-directory --jobs 2 types core
	@$(MAKE) --no-print-directory covered pytest

lint: $(VENV)/installed-dev
	@echo "== ruff: format and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(VENV)/installed-dev
	@echo "== mypy: strict on src"
	@$(BIN)/mypy

# The core alone, in an environment of its own: nothing may lean on an extra unnoticed.
$(VENV)-core/installed: pyproject.toml constraints.txt
	@echo "== installing discrimloss without extras into $(VENV)-core"
	@test -e $(VENV)-core/$(SCRIPTS)/activate || $(PYTHON) -m venv $(VENV)-core
	@$(VENV)-core/$(SCRIPTS)/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints.txt --editable . hypothesis pytest pytest-cov pytest-xdist
	@touch $@

core: $(VENV)-core/installed
	@echo "== pytest: the core with no extras installed"
	@rm -f .coverage
	@OMP_NUM_THREADS=1 DISCRIMLOSS_WITHOUT_EXTRAS=1 $(VENV)-core/$(SCRIPTS)/python -m pytest --quiet \
		$(WORKERS) --cov --cov-report= --cov-fail-under=0 $(CORE_TESTS)

# Only these tests and those of `make core` run with coverage: it would slow down all others for
# nothing. The floor holds for both together.
coverage: core
	@$(MAKE) --no-print-directory covered

covered: $(VENV)/installed-dev
	@echo "== pytest: the rest of the core, with coverage"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet $(WORKERS) --cov --cov-append --cov-report=term \
		$(addprefix --ignore=,$(CORE_TESTS)) $(filter-out $(CORE_TESTS),$(COVERED_TESTS))

pytest: $(VENV)/installed-dev
	@echo "== pytest: all other tests, docstrings and the README"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) $(addprefix --ignore=,$(COVERED_TESTS))

test-slow: $(VENV)/installed-dev
	@$(BIN)/python -m pytest -m slow

format: $(VENV)/installed-dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(VENV)-core .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage site
