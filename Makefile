# Everything needs python3 with its venv module and nothing else; make e2e and make bench also need go, make e2e not with
# E2E_CLUSTER=kind|kubeconfig.
# The system's python3 where it will do, else that of PATH: distributions build theirs for speed, and Tandem takes a sixth
# less CPU with Debian's than with one that was built without (docs/measurements.md, How Python was built).
USABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(if $(shell /usr/bin/python3 -c '$(USABLE)' 2>/dev/null && echo yes),/usr/bin/python3,python3)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Real processes on a busy machine: up to three tests that fail (of make test: in a time-out) run once more, and the
# summary shows how they failed.
RERUNS := --reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks

.PHONY: demo test lint e2e e2e-long bench capacity conformance benchmarks docs clean

$(VENV)/.installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

## demo: an embedded cluster, the shipped scheduler, a workload worth watching (ARGS=--serve keeps it up)
demo: $(VENV)/.installed
	$(BIN)/python -m scheduler demo $(ARGS)

## test: lint, types, dependency rules, and every test that needs nothing but Python
# The same generated examples each time (HYPOTHESIS_SEED): a change is judged by itself; make e2e-long draws others.
HYPOTHESIS_SEED ?= 0
test: lint
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --hypothesis-seed=$(HYPOTHESIS_SEED) \
	  $(RERUNS) --only-rerun 'Timeout(Error|Expired)' $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

## e2e: the promises of the README on a real control plane (built from Go modules once, then cached)
e2e: $(VENV)/.installed
	$(BIN)/python -m pytest e2e $(RERUNS) $(ARGS)

## e2e-long: churn, churn through faults (E2E_FAULT_SEED, E2E_FAULT_SECONDS), side-by-side runs, a real kubelet; fuzz (FUZZ_SECONDS) and property tests
e2e-long: export FUZZ_SECONDS ?= 60
e2e-long: $(VENV)/.installed
	$(BIN)/python -m pytest tests/fuzz tests/properties
	$(BIN)/python -m pytest e2e --long $(ARGS)

## bench: side by side with kube-scheduler and a null scheduler, on the real control plane; JSON and charts in build/bench
bench: $(VENV)/.installed
	$(BIN)/python -m e2e.bench --out build/bench/results.json --charts build/bench $(ARGS)

## capacity: what schedulers can do where the API server is not the limit, on a stub API server
capacity: $(VENV)/.installed
	$(BIN)/python -m e2e.bench.capacity $(ARGS)

## conformance: run vector files, VECTORS=PATH...
conformance: $(VENV)/.installed
	$(BIN)/python -m tests.conformance $(VECTORS)

## benchmarks: what one step costs (a cycle, the first lists, a preemption, …); measurements, not checks
benchmarks: $(VENV)/.installed
	$(BIN)/python -m tests.benchmarks $(ARGS)

## docs: the documentation as a site, in build/site
docs: $(VENV)/.installed
	$(BIN)/python -m mkdocs build --strict $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
