# Two commands: `make demo` and `make test`. Each makes .venv with the pinned dependencies first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: demo test bench format kill-test chaos-test mutation-test lock clean

demo: $(VENV)/run.stamp
	$(BIN)/tdu demo

test: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/deep_sea_speed.py --out results/bench.json
	$(BIN)/python benchmarks/agents_speed.py --out results/agents_speed.json
	$(BIN)/python benchmarks/stepwise_speed.py --out results/stepwise_speed.json

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
	@echo "Installing what tests and benchmarks need; this takes a minute or two the first time."
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

# Needs uv. The locks hold versions and hashes and no addresses.
lock:
	printf 'jax<0.11\ngymnasium<1.4\n' | $(LOCK) --extra build -c - -o requirements.lock > /dev/null
	$(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock > /dev/null

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
