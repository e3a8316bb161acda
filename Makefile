BIN := .venv/bin
ARGS ?=
LONG = $(if $(filter full,$(TALLYMAN_SCALE)),-o timeout=5400)  # some large forms take minutes

.DEFAULT_GOAL := setup
.PHONY: setup check format test faults bench demo docs lock clean

setup: .venv/.package       ## .venv/bin/tallyman, ready to run, and a Java for Spark
	@scripts/ensure-java

check: .venv/.package       ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

format: .venv/.package      ## repair what `check` complains about, where that can be automatic
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Without bytecode each process of the tests compiles all that it imports.
test: export PYTHONDONTWRITEBYTECODE =
test: setup                 ## every promise, meant to take under eight minutes; TALLYMAN_SCALE=full adds what is large
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(LONG) $(ARGS)

faults: setup               ## only the promises under crashes and broken files
	$(BIN)/pytest tests/faults $(ARGS)

bench: setup                ## what accounting costs next to plain Spark
	$(BIN)/python benchmarks/engine.py $(ARGS)

demo: setup                 ## 349,660 records, balanced to the last key
	$(BIN)/tallyman demo $(ARGS)

docs: .venv/.package        ## every link in the pages leads somewhere
	$(BIN)/python scripts/check-docs

lock:                       ## requirements.lock from pyproject.toml; needs uv
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet -o requirements.lock $(ARGS)

clean:                      ## everything that make made
	rm -rf .venv build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.locked: requirements.lock scripts/make-venv
	@scripts/make-venv .venv
	@touch $@

.venv/.package: pyproject.toml .venv/.locked
	@$(BIN)/python -m pip -qq --disable-pip-version-check install --no-build-isolation --no-deps -e .
	@touch $@
