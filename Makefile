.DEFAULT_GOAL := help
.PHONY: help test slow lint types bench ci

help:  ## print these targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

test:  ## the fast tests
	uv run pytest

slow:  ## the slow tests: real time, minutes of computation
	uv run pytest -m slow -n 0

lint:  ## formatter and linter
	uv run ruff format --check . && uv run ruff check .

types:  ## mypy and pyright
	uv run mypy && uv run pyright

bench:  ## speed as ratios against C and bare pyzmq
	uv run python benchmarks

ci:  ## everything CI runs, from scratch
	bash .ci/run
