# narrows: everything a developer or a first-time user runs.
# `make demo` and `make test` need Python 3.11 or newer, make and a package registry, nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup demo test faults soak browser lint format bench notebooks docs pictures clean

setup: $(READY)

# pip, not uv: the constraints pin the exact builds that were reviewed (see docs/decisions.md).
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "narrows needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/narrows train dsprites --config examples/demo.toml

test: lint browser
	$(BIN)/pytest

# The fault suite at full length (docs/faults.md): an hour or two on two cores. A quick part of it is in `make test`.
# Every part runs, also after a failure; any failure fails the whole.
faults: $(READY)
	@failed=0; \
	$(BIN)/pytest tests/faults || failed=1; \
	for part in kills again elastic signals disks damage together nodes mutations; do \
	  $(BIN)/python tests/faults/$$part.py || failed=1; \
	done; \
	exit $$failed

soak: $(READY)
	$(BIN)/python tests/faults/soak.py --minutes 60

# The tests of the reports need a browser; without one they are skipped, and say so.
BROWSER = command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable
browser:
	@if { $(BROWSER); } >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "no browser found; installing chromium"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
	    echo "chromium could not be installed; the tests in a browser are skipped"; \
	else echo "no browser found and no right to install one; the tests in a browser are skipped"; fi

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/startup.py

# Execute examples/notebooks in a Jupyter kernel, into docs/notebooks; any error fails. What did not change is kept.
notebooks: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[notebooks]'
	$(BIN)/python studies/notebooks.py

docs: $(READY) notebooks
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -W --keep-going --nitpicky --quiet docs build/docs
	@echo "build/docs/index.html"

# The README's and the report's pictures, from the demo's run, and those of docs/displays.md.
pictures: $(READY) browser
	test -e runs/pictures/result.json || $(BIN)/narrows train dsprites --config examples/demo.toml --out runs/pictures
	$(BIN)/narrows report runs/pictures
	$(BIN)/python studies/screenshots.py runs/pictures report
	$(BIN)/python studies/displays.py

clean:
	rm -rf $(VENV) build dist docs/notebooks .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
