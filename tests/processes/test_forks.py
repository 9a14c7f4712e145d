"""What a fork or a killed process leaves to others: environments go on, and the memory of a node's rows is kept."""

import os
import signal
import sys
import warnings

import numpy as np
import pytest

from servonode.record.shared_memory import NodeMemory, Ring
from tests.bags.test_spool import filled, recorder_of, rows_in, table
from tests.helpers.wings import needs_wing


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_memory_of_a_killed_process_is_kept() -> None:
    memory = NodeMemory(ring := Ring.of_rows(1000, 3))
    pid = os.fork()
    if pid == 0:
        try:
            filled(recorder_of(ring), 0, 500)
            memory.write_summary({"k": 499})
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    np.testing.assert_array_equal(rows_in(ring, 0, ring.count // 32), table(0, 500))
    assert memory.summary == {"k": 499}


@needs_wing("explore")
def test_environments_go_on_in_a_fork() -> None:
    from servonode import VectorEnv
    from tests.wings.explore.environments.test_environments import SHORT

    envs = VectorEnv("trailer_pursuit", 32, threads=2, **SHORT)
    envs.reset(seed=0)
    envs.step(np.zeros((32, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        envs.step(np.full((32, 2), 0.5))
        os._exit(int(envs._batch.instants[31]) + 40)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
