"""Runs and loops between processes, spawned and forked."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

import servonode
from tests.test_pickle import FREE, assert_same


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_take_loops_and_return_runs(method: str) -> None:
    loop = servonode.load(FREE)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        run = pool.submit(loop.simulate, values={"plant.initial.V": 0.5}).result()
    assert_same(run, loop.simulate(values={"plant.initial.V": 0.5}))
