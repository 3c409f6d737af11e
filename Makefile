# Everything here needs only python3 (3.11 or newer): each target makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRIBUTIONS := platform broker streams connect connectors
MANIFESTS := pyproject.toml constraints.txt $(DISTRIBUTIONS:%=%/pyproject.toml)

.PHONY: help
help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/.made: $(MANIFESTS) $(wildcard platform/hatch_build.py platform/moldau/records/*.pyx)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "moldau needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "This python3 has no venv with pip: install it (Debian: python3-venv)"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install -q -p $(BIN)/python -c constraints.txt --group dev $(DISTRIBUTIONS:%=-e ./%) -e .
	@touch $@

.PHONY: venv
venv: $(VENV)/.made ## make .venv with moldau and its tools
