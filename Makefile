# Every target makes the environment it needs; nothing outside this folder is touched.
.DEFAULT_GOAL := help
.PHONY: help demo test lint style format bench benchspark benchpages benchscale peer soak dist docs lock clean venv peers benchmarks

PY := .venv/bin/python
# Tests wait for JVMs and peers about a third of their time, so one worker more than cores pays.
WORKERS ?= 3
SOAK ?= 30m
ARGS ?=
# Tests start hundreds of Python processes. Where the environment forbids to keep bytecode, each of
# them would compile Frazil again, for a second.
export PYTHONDONTWRITEBYTECODE :=

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | \
		while IFS='	' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

demo: venv ## NetCDF files to a repository, SQL, rechunking and a map, on embedded Spark
	@$(PY) examples/demo.py $(ARGS)

# mypy takes a minute of one core, so it runs beside the tests and is heard at the end.
test: style peers ## ruff, mypy and all tests but the soak ones (WORKERS=3, ARGS=pytest arguments)
	@mkdir -p build
	@$(PY) -m mypy >build/mypy.txt 2>&1 & types=$$!; failed=0; \
	$(PY) -m pytest -m "not soak" -n $(WORKERS) --dist worksteal $(ARGS) || failed=$$?; \
	wait $$types || failed=1; \
	cat build/mypy.txt; exit $$failed

lint: style ## ruff and mypy
	$(PY) -m mypy

style: venv
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: venv ## put every file into ruff's layout
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: peers benchmarks ## measure beside all peers, write docs/benchmarks.md (ARGS="--only read")
	@PYTHONPATH=src:. .venv-bench/bin/python -m bench $(ARGS)

benchspark: venv benchmarks ## the same for the pipeline on Spark (ARGS="--size small --only where")
	@FRAZIL_BENCH_PEER=$(CURDIR)/.venv-bench/bin/python PYTHONPATH=src:. $(PY) -m bench.spark $(ARGS)

benchpages: venv ## how long pages of the explorer take (ARGS="--size small")
	@PYTHONPATH=src:. $(PY) -m bench.pages $(ARGS)

benchscale: venv ## make and use a repository of many references (ARGS="--references 100000000")
	@PYTHONPATH=src:. $(PY) -m bench.scale $(ARGS)

peer: venv peers ## only the tests against the official packages, 1.1.21 and 2.3.0
	$(PY) -m pytest -m peer -n $(WORKERS) $(ARGS)

soak: venv peers ## long races, crashes and state machines (SOAK=30m, ARGS="--only machines --seed 7")
	@$(PY) -m tests.soak $(SOAK) $(ARGS)

dist: venv ## build the wheel and the source distribution, and try them with each extra alone
	@$(PY) scripts/dist
	$(PY) -m pytest tests/dist -n $(WORKERS) $(ARGS)

docs: ## build the documentation site in build/site, with the API reference from the docstrings
	@scripts/venv .venv-docs requirements-docs.lock 3.11 3.14
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict $(ARGS)

lock: ## choose the newest versions that fit and write the lock files anew
	@scripts/lock

clean: ## remove environments, caches and build results
	rm -rf .venv .venv-bench .venv-docs .venv-peer1 .venv-peer2 .venv-peer*.missing build dist
	rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/venv .venv requirements.lock 3.11 3.14 --project

# The official packages need different Pythons: 1.1.21 is tested with 3.11, 2.3.0 with 3.12 or newer.
peers:
	@scripts/venv .venv-peer1 requirements-peer1.lock 3.11 3.11 --optional
	@scripts/venv .venv-peer2 requirements-peer2.lock 3.12 3.14 --optional

benchmarks:
	@scripts/venv .venv-bench requirements-bench.lock 3.12 3.14
