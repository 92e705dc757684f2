# Everything a person or a machine does with this repository. Each target makes what it needs first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

# the interpreter of `make device-test`: one that has pytest, hypothesis and torch for the GPU
DEVICE_PYTHON ?= $(PYTHON)

# the folders in which most tests are pure; those of tune and of the CPU's target compile in threads and processes
PURE := analysis arith backend carver codegen contrib ir isa jit language layout lowering messages ops passes profile runtime \
	targets/gpu targets/nvidia tools transforms

# an empty value lets Python keep what it compiles, though the environment may forbid it: two workers and dozens of
# programs that tests start would each compile all that they import
export PYTHONDONTWRITEBYTECODE :=

# how long `make fuzz` runs
SECONDS ?= 60

# what `make texts` does: write or compare
WHAT ?= compare

.PHONY: demo test test-pure device-test fuzz texts check check-style check-types check-examples check-pages check-rules bench docs format clean

# without torch nothing can hold arrays on a GPU, so the example runs on the CPU there
demo: $(VENV)/.package
	$(BIN)/python -c 'import torch' 2>/dev/null || export TILELANG_DEFAULT_TARGET=cpu; \
	$(BIN)/python examples/quickstart.py

# Python's own assert statements spare each process eight seconds; what fails runs once more, with pytest's, to show operands
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --assert=plain || { $(BIN)/python -m pytest --last-failed; exit 1; }

# what needs no compiler, no process and no simulated GPU: under two minutes on two cores, for every change
test-pure: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -r fE --pure $(addprefix tests/,$(PURE)) tests/test_*.py tests/targets/test_*.py

# on a machine with a GPU: the device against the simulator and the reference; elsewhere all of it is skipped
device-test:
	PYTHONPATH=src $(DEVICE_PYTHON) -m pytest -q -p no:benchmark tests/device

# random programs with fresh seeds: the CPU, simulated GPUs and the GPU, if there is one, against the reference
fuzz: $(VENV)/.dev
	$(BIN)/python tests/random_kernels/fuzz.py --seconds $(SECONDS) --jobs $(JOBS)

# what a change of the compiler changes in the texts of kernels: WHAT=write before it, WHAT=compare after it
texts: $(VENV)/.dev
	$(BIN)/python tests/support/kernel_texts.py $(WHAT) build/kernel_texts --jobs $(JOBS)

# `make check -j 2` runs two of them at a time
check: check-style check-types check-examples check-pages check-rules

check-style: $(VENV)/.dev
	$(BIN)/ruff check .

check-types: $(VENV)/.dev
	$(BIN)/mypy

check-examples: $(VENV)/.dev
	$(BIN)/python docs/check_types.py

check-pages: $(VENV)/.dev
	$(BIN)/python docs/generate_reference.py --check
	$(BIN)/python docs/generate_stub.py --check
	$(BIN)/python docs/generate_pass_tables.py --check
	$(BIN)/python docs/generate_printed_programs.py --check
	$(BIN)/python docs/generate_mistakes.py --check

check-rules: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_architecture.py

bench: $(VENV)/.package
	$(BIN)/python benchmarks/cpu.py

docs: $(VENV)/.package
	$(BIN)/python docs/generate_reference.py
	$(BIN)/python docs/generate_stub.py
	$(BIN)/python docs/generate_pass_tables.py
	$(BIN)/python docs/generate_printed_programs.py
	$(BIN)/python docs/generate_mistakes.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.package: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,cuda,hip]'
	touch $@ $(VENV)/.package
