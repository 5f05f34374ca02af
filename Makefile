# Set-up, demo and tests of Trivet. Needs Python 3.11 or newer, a C compiler and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

MODEL  := examples/models/digits_int8.tflite
BUDGET := 2560

.PHONY: models demo test lint lib fuzz mutants bench clean

models: $(VENV)/test.stamp
	$(BIN)/python scripts/train_digits.py build/digits.npz
	PYTHONPATH=tests:scripts $(BIN)/python scripts/quantize_digits.py build/digits.npz examples/models

demo: $(VENV)/demo.stamp
	@mkdir -p build/demo
	$(BIN)/trivet analyze $(MODEL) -m $(BUDGET)
	$(BIN)/trivet compile $(MODEL) -m $(BUDGET) -o build/demo/digits.tgrs
	$(BIN)/trivet run build/demo/digits.tgrs --random 1 --check $(MODEL)

test: $(VENV)/test.stamp lib
	$(BIN)/python -m pytest -n 2 -rsfE $(PYTEST_FLAGS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check src tests scripts bench
	$(BIN)/ruff format --check src tests scripts bench
	$(BIN)/mypy
	$(BIN)/lint-imports

# The host runtime, built into the source tree, where an editable installation finds it.
lib: $(VENV)/test.stamp
	$(BIN)/cmake -S . -B build/host -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=src >build/host.log 2>&1 \
	  && $(BIN)/cmake --build build/host -j2 >>build/host.log 2>&1 \
	  && $(BIN)/cmake --install build/host >>build/host.log 2>&1 || { tail -n 40 build/host.log; exit 1; }

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: $(VENV)/bin/python pyproject.toml CMakeLists.txt $(shell find src -name '*.py' -o -name '*.[ch]')
	$(PIP) .
	@touch $@

$(VENV)/test.stamp: $(VENV)/bin/python pyproject.toml
	@scripts/install_system_packages.sh
	@mkdir -p build
	$(PIP) -e '.[dev,reference]'
	@touch $@

# The plan loader under libFuzzer, for FUZZ_SECONDS. A finding is written to build/fuzz.
FUZZ_SECONDS ?= 60
CLANG ?= $(shell command -v clang || ls /usr/bin/clang-[0-9]* | tail -n 1)
RUNTIME := src/trivet/runtime

fuzz: $(VENV)/test.stamp
	@mkdir -p build/fuzz/corpus
	$(BIN)/python tests/fuzz/seeds.py build/fuzz/corpus
	$(CLANG) -std=c99 -g -O1 -ffp-contract=off -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	  -I$(RUNTIME)/include -I$(RUNTIME)/src -Itests/fuzz $$(find $(RUNTIME)/src -name '*.c') \
	  tests/fuzz/exercise.c tests/fuzz/fuzz_plan.c -o build/fuzz/fuzz_plan -lm
	cd build/fuzz && ./fuzz_plan -max_total_time=$(FUZZ_SECONDS) -max_len=4096 corpus

# Faults planted one at a time, each with the test that must notice it.
mutants: $(VENV)/test.stamp lib
	$(BIN)/python scripts/mutants.py

# Ratios to public tools, measured in one run; `bench/host_kernels.py` needs the real networks beside the checkout.
bench: $(VENV)/test.stamp lib
	-$(PIP) tigris-ml
	$(BIN)/python bench/compile_time.py $(MODEL)
	$(BIN)/python bench/memory.py $(MODEL)
	$(BIN)/python bench/verification.py
	$(BIN)/python bench/host_kernels.py

clean:
	rm -rf build $(VENV) src/trivet/_lib
