# Everything a new machine needs is installed here: `make demo` and `make test` start from python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.PHONY: fuzz mutants setup demo test check format bench evidence docs notebooks dist lowest pythons clean

setup: $(STAMP)

$(STAMP): requirements.lock requirements-nodeps.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements-nodeps.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

demo: setup
	$(BIN)/poela reproduce demo --out demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

fuzz: setup  # hostile cases for some minutes, by the seed of the day
	$(BIN)/python tests/robustness/hostile_tour.py --times 20
	$(BIN)/python tests/robustness/fuzz_logs.py --seconds 120 --seed $$(date +%Y%m%d)
	$(BIN)/python -m tests.robustness.fuzz_policies --seconds 120 --seed $$(date +%Y%m%d)
	$(BIN)/python -m tests.robustness.fuzz_studies --seconds 120 --seed $$(date +%Y%m%d)
	POELA_MOMENTS=50 $(BIN)/python -m pytest -q tests/robustness/test_interruption.py

# How many small changes of the kernel, evaluation and studies the tests notice: a sample, drawn with a seed.
mutants: setup
	$(BIN)/python scripts/mutants.py --count 40 --seed 0

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Speed beside alternatives, on one thread; into build/bench. For two commits: benchmarks/bench.py --compare OLD NEW
bench: setup
	$(BIN)/python benchmarks/bench.py

# What the measured pages rest on, how many commits have changed their code since, and what a rerun would cost.
evidence: setup
	$(BIN)/python scripts/evidence.py --follow

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# Tutorials, executed again and stored.
notebooks: setup
	$(BIN)/python scripts/site/notebooks.py

# Built from what is in the repository, checked, and installed where the repository cannot be seen.
dist: setup
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python scripts/try_wheel.py dist/*.whl

# The oldest versions that pyproject.toml allows: do they still work? An old torch takes its time to arrive.
lowest: dist
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --extra report pyproject.toml --output-file build/lowest.txt
	$(BIN)/python scripts/try_wheel.py dist/*.whl --requirements build/lowest.txt --exact

# The wheel in a clean environment of each Python that is named: make pythons PYTHONS="python3.12 python3.13"
PYTHONS ?= python3.12 python3.13 python3.14
pythons: dist
	for python in $(PYTHONS); do $(BIN)/python scripts/try_wheel.py dist/*.whl --python $$python || exit 1; done

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
