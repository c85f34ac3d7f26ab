# Each target installs what it needs: uv, the environment, the embedded AWS and, for tests, a Java for Spark.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := $(shell command -v uv 2>/dev/null || echo .tools/uv/bin/uv)
export UV_PYTHON_DOWNLOADS := never
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
RUN := .venv/bin/python -m
# DIST is the output folder of the packages. PACKAGES_FOR selects those that `sam build` copies: `lambda`, or `host` for
# an emulator on this machine.
DIST ?= dist
PACKAGES_FOR ?= lambda

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: install
install: .venv/.local ## Install the `sluice` command and the embedded AWS into .venv

.PHONY: demo
demo: .venv/.local ## Share a year of trips from an embedded AWS and read it back with the published client
	@.venv/bin/sluice demo

.PHONY: serve
serve: .venv/.local ## Serve an empty catalog on 127.0.0.1:8080 (sluice serve --help for more)
	@.venv/bin/sluice serve

# `test` and `test-all` together run every test. `test` skips tests marked slow and draws a fifth of the examples of
# property tests. `test-all` runs the slow tests, and the property tests with all examples.
# Coverage is measured for unit tests only, because it can double the time of a test.
.PHONY: test
test: .venv/.all ## Run tests of every suite in minutes, and enforce the coverage of handlers and core
	@rm -f .coverage .coverage.*
	$(RUN) pytest -n 2 --dist loadfile -m "not slow" --hypothesis-profile=quick tests/unit --cov --cov-report=
	$(RUN) coverage report
	$(RUN) pytest -n 2 --dist loadfile -m "not slow" --hypothesis-profile=quick \
	  tests/integration tests/deploy tests/golden tests/property

.PHONY: test-all
test-all: .venv/.all ## Run what `make test` skips: slow tests, all golden tables, all examples of property tests
	$(RUN) pytest -n 2 --dist loadfile -m "slow or hypothesis" \
	  tests/unit tests/integration tests/deploy tests/golden tests/property

# The first test waits until Spark has created all tables.
.PHONY: test-clients
test-clients: .venv/.all ## Test real clients on tables written by Spark, and the index job with Spark
	$(RUN) pytest tests/job --timeout=600
	$(RUN) pytest tests/clients --timeout=900

.PHONY: test-nightly
test-nightly: .venv/.all ## Prune 20,000 random tables in process and over HTTP, and kill 20 Spark jobs
	SLUICE_KILLS=20 $(RUN) pytest tests/job/spark/test_processes.py --timeout=1800
	$(RUN) pytest -n 2 -rP --timeout=7200 --hypothesis-profile=nightly \
	  tests/property/test_pruning.py tests/property/test_pruning_http.py

.PHONY: lint
lint: .venv/.all ## Check format, rules, types, import directions and templates
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	.venv/bin/lint-imports --no-cache
	.venv/bin/cfn-lint infra/template.yaml infra/storage-role.yaml infra/index.yaml

.PHONY: format
format: .venv/.all ## Format the code and apply automatic fixes
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

.PHONY: build
build: | $(UV) ## Build the packages of the functions, import every handler from them, and print their sizes
	@$(PYTHON) -m infra.build $(DIST)
	@touch $(DIST)/.built

# `sam build` calls this through infra/thin/Makefile and infra/full/Makefile.
.PHONY: package
package: $(DIST)/.built
	@cp -R $(DIST)/$(PACKAGES_FOR)/$(PACKAGE)/. "$(FOLDER)"

# Depends on folders too, because removing a file changes only its folder.
$(DIST)/.built: uv.lock infra/build.py infra/full/stream $(shell find core handlers -name '*.py' -o -type d ! -name __pycache__)
	@$(MAKE) --no-print-directory build

.PHONY: build-job
build-job: | $(UV) ## Build the release of the index job for EMR Serverless
	@$(PYTHON) -m infra.build_job $(DIST)/job

.PHONY: release
release: | $(UV) ## Build wheel, packages, index job and SBOM of a version into dist/release (RELEASING.md)
	@$(PYTHON) -m infra.release $(DIST)

.PHONY: sbom
sbom: | $(UV) ## Write the software bill of materials (CycloneDX) of a release
	@$(PYTHON) -m infra.sbom $(DIST)/sbom.cdx.json

.PHONY: template
template: .venv/.all ## Generate the role, log group and alarm of every function in infra/template.yaml
	$(RUN) infra.template

.PHONY: openapi
openapi: .venv/.all ## Generate docs/openapi.yaml, the OpenAPI description of the API
	$(RUN) infra.openapi

.PHONY: compatibility
compatibility: .venv/.all ## Read every golden table through the server, and generate docs/compatibility.md
	$(RUN) tests.golden.compatibility

.PHONY: docs
docs: .venv/.docs ## Build the documentation site into site/ (docs/, zensical.toml)
	.venv/bin/zensical build --strict --clean

.PHONY: bench-sign
bench-sign: .venv/.all ## Measure URL signing against botocore
	$(RUN) bench.sign

.PHONY: bench-cold
bench-cold: .venv/.all ## Measure the import-to-ready time of every handler against boto3 and a DynamoDB client
	$(RUN) bench.cold

.PHONY: bench-pruning
bench-pruning: .venv/.all ## Measure files pruned per second, many at once and one at a time
	$(RUN) bench.pruning

.PHONY: bench-packages
bench-packages: .venv/.all ## Measure the size of the packages, and cold starts with and without bytecode
	$(RUN) bench.packages

.PHONY: bench-log
bench-log: .venv/.all ## Measure reading and listing logs of 10k, 100k and 1M files against deltalake
	$(RUN) bench.log

.PHONY: bench-index
bench-index: .venv/.all ## Measure index builds, and queries with and without an index, on 10k, 100k and 1M files
	$(RUN) bench.index

.PHONY: bench-worker
bench-worker: .venv/.all ## Measure the index builds of the worker of asynchronous queries, on 100k, 300k and 1M files
	$(RUN) bench.worker

.PHONY: bench-listing
bench-listing: .venv/.all ## Measure full listings of up to 1M files by a streaming function, on a free and on a throttled link
	$(RUN) bench.listing

.PHONY: bench-pages
bench-pages: .venv/.all ## Measure first, last and all pages of 100k and 1M files against a full listing
	$(RUN) bench.pages

.PHONY: bench-serve
bench-serve: .venv/.all ## Measure a local server under 1 and 8 clients, and count its S3 and DynamoDB requests
	$(RUN) bench.serve

.PHONY: setup
setup: .venv/.all ## Install the environment, the embedded AWS and a Java, and nothing else
	@echo "Ready. To run the checks of 'make lint' before each commit, run .venv/bin/pre-commit install."

.PHONY: clean
clean: ## Remove everything that make created
	rm -rf .venv .tools dist site .cache infra/.aws-sam .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache

.tools/uv/bin/uv:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .tools/uv uv==$(UV_VERSION)

.venv/.local: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact
	$(RUN) cli.embedded.environment
	@touch $@

.venv/.docs: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --inexact --group docs
	@touch $@

.venv/.all: pyproject.toml uv.lock infra/sam.txt tests/deploy/ministack.txt cli/embedded/awslambdaric.txt | $(UV)
	$(UV) sync --quiet --frozen --inexact --all-extras
	$(RUN) cli.embedded.environment infra/sam.txt tests/deploy/ministack.txt cli/embedded/awslambdaric.txt
	@.venv/bin/python -m pipeline.spark.java || $(UV) sync --quiet --frozen --inexact --all-extras --group java
	@touch $@ .venv/.local
