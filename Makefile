.DEFAULT_GOAL := help
.PHONY: help test slow soak mutants lint types docs links bench pictures robots release-check ci
unexport PYTHONDONTWRITEBYTECODE

help:  ## print these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

test:  ## the fast tests
	uv run pytest

slow:  ## the slow tests: minutes of computation
	uv run --all-extras --all-groups pytest -m "slow and not soak"

soak:  ## hours on a quiet computer: latencies, kills, floods, real wires
	uv run --all-extras --all-groups python tools/soak.py

mutants:  ## whether the tests notice wrong facts, each put into a copy of the code
	uv run --all-extras --all-groups python tools/mutants.py

lint:  ## formatter, linter, what tests may not do, words and links
	uv run --group lint ruff format --check . && uv run --group lint ruff check . && uv run python tools/lint_tests.py && \
		uv run python -m tools.words

types:  ## mypy and pyright
	uv run --all-extras --all-groups mypy && uv run --all-extras --all-groups pyright

docs:  ## the documentation site, in docs/_build/html; each warning is an error
	uv run --group docs sphinx-build -b html -W --keep-going docs docs/_build/html

links:  ## the links of the site to other sites; needs a network, so CI does not
	uv run --group docs sphinx-build -b linkcheck docs docs/_build/links

bench:  ## speed as ratios against C and bare pyzmq
	uv run python benchmarks

pictures:  ## the pictures of README, pages and gallery, minutes of computation
	uv run python docs/validation/pictures.py && uv run python docs/validation/mosaic.py && \
		uv run python docs/validation/gallery.py && uv run python docs/validation/drawings.py && \
		uv run python docs/validation/screenshots.py

robots:  ## the page of public robots, from copies of their repositories: FOLDERS="..."
	uv run --all-extras --all-groups python tools/robots_corpus.py $(FOLDERS)

release-check:  ## every step of a release but the upload
	uv run --group release python packaging/release.py check

ci:  ## everything CI runs, from scratch
	bash .ci/run
