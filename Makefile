# The only entry point: people, pre-commit and CI call the same targets. Works with GNU make 3.81 (macOS) and later.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# uv makes the environment from uv.lock with the Python that is there. If uv is missing it is installed from the
# package index into .uv/, beside this file; nothing outside this folder changes.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen --no-sync
export UV_PYTHON_DOWNLOADS := never
export QT_API := pyside6

.PHONY: help run test test-all test-deep test-engines test-gpu test-package check fix bench mutants catalogue-check screenshots package appimage wheel clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: .venv/ready  ## open the window; without a display, do the same job in the terminal
	@$(RUN) roundhouse

test: .venv/ready  ## run the tests, but for the slow ones, in a few processes side by side
	@QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.suite

test-all: .venv/ready  ## run every test, the slow ones too
	@QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.suite --all

test-deep: .venv/ready  ## the same, with every combination that the others take a sample of
	@ROUNDHOUSE_TEST_DEPTH=deep QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.suite

test-engines: .venv/ready  ## run what needs the package index, a compiler, or minutes: real installs of engines
	@QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.suite --engines

test-gpu: .venv/ready  ## try the engines for cards on the card that is here, with what is installed; write the result into docs
	@$(RUN) python -m tests.gpu --write

test-package: .venv/ready  ## install what `make package` made on a clean Debian and use it; needs root and debootstrap
	@QT_QPA_PLATFORM=offscreen $(RUN) pytest -q -m packaging tests/packaging --timeout 1800

# 330 MB of packages that nothing else here needs, so they have an environment of their own.
# Two gigabytes more for the coding agents, which need npm.
clients: .venv/ready .clients/ready .clients/agents/ready .clients/servers/ready  ## try the llm and litellm packages, coding agents, and MCP's reference servers
	@OTHER_CLIENTS_BIN=$(CURDIR)/.clients/bin AGENTS=$(CURDIR)/.clients/agents REFERENCE_SERVERS=$(CURDIR)/.clients/servers \
	  QT_QPA_PLATFORM=offscreen $(RUN) pytest -q tests/gateway/dialects/test_scripted_other_clients.py \
	  tests/end_to_end/test_other_clients.py tests/end_to_end/test_agents.py \
	  tests/end_to_end/test_hosted_agents.py tests/end_to_end/test_reference_servers.py

check: .venv/ready  ## lint, format, types on every system, workflows, rules of imports, names, sentences, connections
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@printf '%s\n' linux darwin win32 | \
	  xargs -P 3 -I SYSTEM $(RUN) mypy --platform SYSTEM --cache-dir .mypy_cache/SYSTEM
	@$(RUN) check-jsonschema --quiet --builtin-schema vendor.github-workflows $(wildcard .github/workflows/*.yml)
	@$(RUN) pytest -q tests/unit/test_layout.py tests/unit/test_names.py tests/unit/test_window_texts.py tests/unit/network/test_the_only_way.py

fix: .venv/ready  ## put right what the linter and formatter can; write the docs' tables about engines and models and the window's sentences
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .
	@$(RUN) python -m tests.engine_docs --write
	@$(RUN) python -m tests.catalogue_docs --write
	@$(RUN) python -m tests.expert_docs --write
	@$(RUN) python -m tests.agents --write
	@$(RUN) python -m tests.window_texts --write

bench: .venv/ready  ## measure the figures this project promises
	@QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.bench

mutants: .venv/ready  ## change the code in 200 places, one at a time, and count how many changes the tests notice
	@$(RUN) python -m tests.mutants

catalogue-check: .venv/ready  ## ask the hub about every repository of the catalogue; what differs goes to catalogue-check.txt
	@$(RUN) python -m app.hub.repositories.catalogue_check catalogue-check.txt

screenshots: .venv/ready  ## draw every screen, light and dark, 100 % and 200 %, into screenshots/
	@QT_QPA_PLATFORM=offscreen $(RUN) python -m tests.demo.screenshots screenshots

package: .venv/ready  ## freeze the application and pack it for this system, into dist/
	@UV_PROJECT_ENVIRONMENT=build/package-env $(UV) sync --frozen --quiet --no-default-groups --group package
	@QT_QPA_PLATFORM=offscreen build/package-env/bin/python packaging/build.py

appimage: .venv/ready  ## after `make package`: an AppImage, with RUNTIME=FILE SHA256=HEX (docs/guide/installing.md)
	@QT_QPA_PLATFORM=offscreen build/package-env/bin/python packaging/build.py appimage --runtime "$(RUNTIME)" --sha256 "$(SHA256)"

wheel: .venv/ready  ## build the wheel and the source distribution, into dist/
	@$(UV) build

clean:  ## remove everything that is made here
	rm -rf .venv .uv .clients .go-bench build dist screenshots bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/ready: pyproject.toml uv.lock $(filter .uv/bin/uv,$(UV))
	@$(UV) sync --frozen --quiet --compile-bytecode
	@touch $@

.clients/ready: tests/other_clients.txt $(filter .uv/bin/uv,$(UV))
	@$(UV) venv --quiet --clear .clients
	@$(UV) pip install --quiet --python .clients/bin/python -r tests/other_clients.txt
	@touch $@

.clients/agents/ready: tests/agents.py .clients/ready
	@$(RUN) python -m tests.agents --install $(CURDIR)/.clients/agents $(UV)
	@touch $@

.clients/servers/ready: tests/reference_servers.py .clients/ready
	@$(RUN) python -m tests.reference_servers $(CURDIR)/.clients/servers $(UV)
	@touch $@

.uv/bin/uv:
	@$$(command -v python3 || command -v python) packaging/get_uv.py .uv
