"""Boards: each program is what its processor starts, and the emulated one keeps the promises over 115200 baud."""

import os
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import FAULT, NONE, SETUP, STATE, Head, SetupContent
from servonode.plants.drivers.serial import stuffed, unstuffed
from tests.helpers.boards import Emulated, OnBoard
from tests.helpers.runs import Process, Runs, Watch, eventually, operator
from tests.soak.suite import PERIOD, TIMEOUT, WAITS, Stage, assert_within

STATES = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
ROUNDING = 2.0**-20  # relative to the largest value of a state
FAST, SLOW = 0.2, 0.03  # m/s
N_INPUTS, SPEED, YAW_RATE = 2, 4, 5  # of the robot; which of its states


@pytest.fixture
def stage(runs: Runs) -> Iterator[Stage]:
    stage = Stage(OnBoard(), runs)
    yield stage
    stage.close()


def board_of(stage: Stage) -> Emulated:
    assert isinstance(stage.driver, OnBoard)
    return stage.driver.board


def speed(board: Emulated) -> float:
    return board.doubles("state", len(STATES))[SPEED]


def moves(run: Process, board: Emulated) -> bool:
    """Whether the robot moves; after a fault, as on a busy computer, it is armed again."""
    if run.ask("status")["lifecycle"] in ("fault", "inactive"):
        run.armed_again()
    return speed(board) > FAST


def brake_of(board: Emulated) -> tuple[np.ndarray, np.ndarray]:
    """The inputs that act on the board, and those of the brake at its state: -c_b of the speeds of the wheels."""
    p = resolve(read_launch("trailer_pursuit"), strict=False).machine.parameters
    inputs, x = board.doubles("inputs", N_INPUTS), board.doubles("state", len(STATES))
    wheels = np.array([x[SPEED] - p["l"] * x[YAW_RATE], x[SPEED] + p["l"] * x[YAW_RATE]]) / p["r"]
    return np.array(inputs), -p["c_b"] * wheels


def assert_comes_to_rest(board: Emulated) -> None:
    """Its brake acts, by what the board itself knows, until it is slow, and it stays so."""
    assert eventually(lambda: abs(speed(board)) < FAST)
    acting, wanted = brake_of(board)
    np.testing.assert_allclose(acting, wanted, rtol=0.1, atol=2e-3)  # between two reads it goes on
    assert min(abs(acting)) > 0.0
    assert eventually(lambda: abs(speed(board)) < SLOW)
    time.sleep(1.0)
    assert abs(speed(board)) < SLOW


@pytest.mark.parametrize("law", [False, True])
def test_the_emulated_board_is_accepted_over_115200_baud(law: bool) -> None:
    driver = OnBoard()
    with driver.machine() as beside:
        given = [*driver.settings, *beside.settings, "plant.safety.command_timeout=0.1",
                 f"plant.device.law={str(law).lower()}"]  # fmt: skip
        words = [word for each in given for word in ("--set", each)]
        done = operator("hil", "accept", "trailer_pursuit", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict          yes" in done.stdout


def test_the_emulated_board_is_driven_over_115200_baud_to_the_end(stage: Stage) -> None:
    run = stage.start("run.duration=12", "plant.safety.command_timeout=0.5", words=("--arm",))
    run.ends_with(0, 60.0)
    columns = run.columns
    for name in STATES:
        assert np.isfinite(columns[name]).all(), name
    for name in ("residual_speed", "residual_heading"):  # of the last 2 s; unknown where a busy computer is late
        assert np.nanmedian(np.abs(columns[name][-2000:])) < 0.02, name
    assert columns["V"][-1] > FAST
    assert_comes_to_rest(board_of(stage))


def test_in_lockstep_the_emulated_board_moves_as_the_simulation_within_rounding_of_32_bits(stage: Stage) -> None:
    run = stage.start("run.duration=8", "run.mode=lockstep", words=("--arm", "--every", "10"))
    run.ends_with(0, 200.0)
    ours = servonode.simulate("trailer_pursuit", every=10, run__duration=8.0, plant__safety__ramp=0.0)
    for name in STATES:
        difference = np.abs(run.columns[name] - ours.state[name]).max()
        assert difference <= ROUNDING * np.abs(ours.state[name]).max(), name


def test_an_emergency_stop_brings_the_emulated_board_to_rest(stage: Stage) -> None:
    run = stage.start(WAITS)
    board = board_of(stage)
    assert eventually(lambda: moves(run, board), 60.0), run.ask("status")
    operator("estop", run.name)
    assert_comes_to_rest(board)
    stands = run.ask("status")
    assert ([each["name"] for each in stands["faults"]], stands["safe_state"]) == (["estop"], "damp")
    run.ask("reset_estop")
    assert eventually(run.armed_again), run.ask("status")
    assert eventually(lambda: moves(run, board), 60.0), run.ask("status")
    run.stop()


def test_a_pulled_cable_is_a_fault_and_the_emulated_board_brakes_by_itself(stage: Stage) -> None:
    run = stage.start(WAITS)
    board = board_of(stage)
    assert isinstance(stage.driver, OnBoard)
    assert eventually(lambda: moves(run, board), 60.0), run.ask("status")
    with Watch(run.name) as watch:
        begun = time.monotonic_ns()
        stage.driver.line.pull()
        status = watch.status("fault", begun)
        assert (status.fault, status.safe_state) == ("link_lost", "zero")
        assert_within(TIMEOUT + PERIOD, begun, status.mono)
    assert_comes_to_rest(board)
    stage.driver.line.plug()
    assert eventually(run.armed_again, 20.0), run.ask("status")
    assert eventually(lambda: moves(run, board), 60.0), run.ask("status")
    run.stop()


def frames_of(data: bytes) -> list[tuple[Head, bytes]]:
    """The good packets among the bytes of a line."""
    return [packets.decode(unstuffed(each)) for each in data.split(b"\0")[:-1]]


def test_a_line_that_takes_nothing_gets_the_fault_and_the_newest_state_later(tmp_path: Path) -> None:
    machine = resolve(read_launch("trailer_pursuit"), strict=False).machine.description
    schema = packets.schema_of(machine.name, machine.state_names, machine.input_names)
    good = SetupContent(schema, 10**6, 10**7, 10**8, 1.0, (1.0, 1.0), ((0.0,) * 9,) * 2, (0.0,) * 8)
    with Emulated(tmp_path) as board:
        terminal = os.open(board.terminal, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(terminal)
        os.set_blocking(terminal, False)

        def begin(run: int, content: SetupContent) -> None:
            head = Head(SETUP, run, 7, run, 1, 0)
            os.write(terminal, stuffed(packets.encode(head, packets.setup_payload(content))))

        def arrived() -> list[tuple[Head, bytes]]:
            data, until = b"", time.monotonic() + 1.0
            while time.monotonic() < until:
                time.sleep(0.001)
                try:
                    data += os.read(terminal, 4096)
                except BlockingIOError:
                    continue
            return frames_of(data)

        begin(1, good)  # a state each step; no terminal holds those of 10 s, 0.8 MB
        time.sleep(10.0)
        begin(2, good._replace(schema=1))
        time.sleep(1.0)
        came = arrived()
        os.close(terminal)
    heads = [head for head, _ in came]
    fault = next(i for i, head in enumerate(heads) if head.type == FAULT)
    old, newest = heads[:fault], heads[fault + 1 :]
    assert np.diff([head.step for head in old]).max() < 100  # what was under way when the line stopped
    assert old[-1].step < 9000
    assert packets.read_fault(came[fault][1]) == (1, schema)
    assert [head.type for head in newest] == [STATE]
    assert newest[0].step > old[-1].step + 500
    assert newest[0].reply == NONE
    assert len({head.source for head in heads}) == 1
