# `make demo`, `make test` and `make check`. Each first sets up .venv with the pinned dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-header --no-annotate

.PHONY: demo test check docs browser evidence bench format kill-test chaos-test mutation-test lock clean

demo: $(VENV)/run.stamp
	$(BIN)/tdu demo

test: $(VENV)/dev.stamp browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# Lint, types and the tests of tests/unit, for every change.
check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder tests/unit

# The documentation site, with search and a reference of the library.
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html is ready. Search needs a server: $(BIN)/python -m http.server --directory site"

# The pages of tdu report are tested in a real Chromium. Without one, and without a way to install it, those tests are skipped.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name > /dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "Installing Chromium for the tests of web pages."; \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) > /dev/null 2>&1 && exit 0; \
	fi; \
	echo "Chromium is missing and could not be installed, so the tests of web pages are skipped. On Debian: apt-get install chromium." >&2

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/deep_sea_speed.py --out results/bench.json
	$(BIN)/python benchmarks/agents_speed.py --out results/agents_speed.json
	$(BIN)/python benchmarks/stepwise_speed.py --out results/stepwise_speed.json

# Makes the missing runs behind the pages under results/, the most valuable first.
evidence: $(VENV)/dev.stamp
	$(BIN)/tdu reproduce all

kill-test: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/kill_and_resume.py --out results/kill_and_resume.json

chaos-test: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/ray_chaos.py --out results/ray_chaos.json

mutation-test: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/mutations.py --out results/mutations.json

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/run.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tdu needs Python 3.11 or newer; run make PYTHON=python3.12, for example.")'
	@echo "Installing into $(VENV); this takes a minute or two the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo "Installing the packages for tests and benchmarks; this takes a minute or two the first time."
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/docs.stamp: $(VENV)/run.stamp requirements-docs.lock
	@echo "Installing the packages for the documentation; this takes a minute the first time."
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-docs.lock
	@touch $@

# Needs uv. The lock files contain versions and hashes, and no URLs.
lock:
	printf 'jax<0.11\ngymnasium<1.4\n' | $(LOCK) --extra build -c - -o requirements.lock > /dev/null
	$(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock > /dev/null
	$(LOCK) --extra docs -c requirements-dev.lock -o requirements-docs.lock > /dev/null

clean:
	rm -rf $(VENV) build site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
