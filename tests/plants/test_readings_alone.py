"""Machines that send readings alone: their state is estimated in the plant, and believed only while that is good."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from servonode.bus import Applied, Message, Setup, State
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.mechanics.description import packed
from servonode.nodes.plant_machine import driven_plant
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink
from servonode.plants.drivers.transport import Transport
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.firmware import ESTIMATED
from tests.helpers.plants import context
from tests.helpers.wings import needs_wing

SENSORS = ("encoder_left", "encoder_right", "gyroscope")
STEPS = 10  # of the machine from message to message
MS = 1_000_000  # ns


@pytest.fixture(scope="module")
def loop() -> ClosedLoop:
    return resolved()


def resolved(*settings: str) -> ClosedLoop:
    words = ("run.speed=1", "plant.driver=udp", 'plant.device.address="127.0.0.1:9875"', "plant.safety.limit=0.4",
             "plant.safety.command_timeout_floor=0.1")  # fmt: skip
    return resolve(read_launch("trailer_pursuit", [*words, *ESTIMATED, *settings]), strict=False)


class Board:
    """The link to a machine that stands, or drives straight on at `speed`; it says what the test wants it to."""

    fds: tuple[int, ...] = ()
    lost = hint = ""

    def __init__(self, loop: ClosedLoop, speed: float = 0.0) -> None:
        self.counts: Counter[str] = Counter()
        self.loop, self.speed = loop, speed
        self.now, self.k, self.seq, self.src = 0, 0, 0, 7
        self.run, self.taken = 0, -1
        self.waiting: list[tuple[str, Message]] = []

    def send(self, topic: str, message: Message) -> None:  # noqa: ARG002
        if isinstance(message, Setup):
            self.run, self.taken = message.run, -1
        elif isinstance(message, Applied):
            self.taken = message.seq

    def receive(self, bound: int = 0) -> list[tuple[str, Message]]:  # noqa: ARG002
        came, self.waiting = self.waiting, []
        return came

    def readings(self, *names: str) -> dict[str, list[float]]:
        """What good sensors of these names read now."""
        theta = self.speed * self.k * 1e-3 / 0.075
        return {name: [float(self.k), theta if name.startswith("encoder") else 0.0] for name in names or SENSORS}

    def says(self, readings: Any = None, **changes: Any) -> None:
        """Its next message, `STEPS` of its steps and as much time later."""
        self.now += STEPS * MS
        self.k += STEPS
        self.seq += 1
        given = self.readings() if readings is None else readings() if callable(readings) else readings
        values: dict[str, Any] = {
            "t": self.k * 1e-3, "seq": self.seq, "run": self.run, "k": self.k, "mono": 0, "node": "board",
            "src": self.src, "state": {}, "input": {"U1": 0.0, "U2": 0.0}, "control": False,
            "applied_seq": self.taken, "readings": given,
        }  # fmt: skip
        self.waiting.append(("state", State(**(values | changes))))

    def __getattr__(self, name: str) -> Any:
        return lambda: None  # open, due, listened, renew, close


def asked(loop: ClosedLoop, speed: float = 0.0) -> tuple[Board, DevicePlant]:
    """A machine, and the plant of it in real time, whose handshake has begun."""
    board = Board(loop, speed)
    terms = context(
        loop.machine, loop.start, loop.safety.limits.value, estimate=loop.device_estimate, resolution=RESOLUTION,
        clock=lambda: board.now, plausible=loop.safety.plausible(own=True),
    )  # fmt: skip
    plant = DevicePlant(terms, board)
    plant.begin(4242, 0)
    return board, plant


def believed(loop: ClosedLoop, speed: float = 0.0) -> tuple[Board, DevicePlant]:
    """The same after its first good message."""
    board, plant = asked(loop, speed)
    board.says()
    assert plant.remote.connected()
    return board, plant


def after(plant: DevicePlant, board: Board, messages: int, readings: Any = None, **changes: Any) -> tuple[str, str]:
    """Name and text of the fault once so many messages have come; empty without a fault."""
    for _ in range(messages):
        board.says(readings, **changes)
        plant.advance(STEPS)
        if plant.distrust is not None:
            return plant.distrust
    return plant.remote.fault() or ("", "")


@pytest.mark.parametrize("gate", [(), ("estimator.gate=2.5",)], ids=["no gate", "gate"])
def test_a_plant_that_estimates_gives_the_very_bits_of_a_controller_that_does(gate: tuple[str, ...]) -> None:
    words = (*gate, "run.mode=lockstep", "run.duration=1.5", "plant.safety.ramp=0", "estimator.process_noise=0.02",
             "plant.sensors.camera_x.delay=0.2")  # fmt: skip
    loop = resolve(read_launch("trailer_pursuit", [*words, "plant.driver=loopback", "plant.device.sends=readings"]))
    plant, own = driven_plant(loop, lambda: 0), loop.plant()
    estimator = loop.estimation.estimator()  # type: ignore[union-attr]
    assert isinstance(plant, DevicePlant)
    plant.open()
    plant.begin(4242, 0)
    assert plant.remote.connected()
    rng, u = np.random.default_rng(3), np.zeros(2)
    for k in range(0, 1000, 10):
        reading = plant.read()
        assert estimator.advance(k, u, own.read().readings or {})
        assert np.array_equal(reading.state, estimator.x[:-1])
        assert reading.estimate is not None
        assert list(reading.estimate.std.values()) == estimator.deviations.tolist()
        stats = estimator.take_stats()
        assert (reading.estimate.innovation, reading.estimate.consistency["nis"]) == (stats.innovations, stats.nis)
        assert (reading.estimate.rejected, reading.estimate.consistency["readings"]) == (stats.rejected, stats.taken)
        u = rng.uniform(-0.1, 0.3, 2)
        for each in (plant, own):
            each.write(u)
            each.advance(10)
        while not plant.remote.arrived():
            pass
    assert estimator.counts["late_readings"] == 0
    assert bool(estimator.counts) == bool(gate)
    assert plant.counts == estimator.counts
    assert own.x[4] > 0.1


def test_a_machine_is_not_known_before_each_of_its_sensors_has_been_read(loop: ClosedLoop) -> None:
    board, plant = asked(loop)
    board.says(lambda: board.readings("encoder_left", "gyroscope"))
    assert not plant.remote.connected()
    assert plant.remote.no_answer_reason() == "no reading of encoder_right has come yet"
    board.says(lambda: board.readings("encoder_right"))
    assert plant.remote.connected()
    assert plant.read().state == pytest.approx(loop.start[:-1], abs=0.01)


def test_an_estimate_that_knows_too_little_is_not_armed_and_later_a_fault() -> None:
    loose, plant = asked(resolved("estimator.std_limit={X = 0.0005}"))
    loose.says()
    assert not plant.remote.connected()
    assert "X is known to 0.001 alone (standard deviation), beyond its [estimator] std_limit of 0.0005" in (
        plant.remote.no_answer_reason()
    )


def test_while_a_sensor_may_be_away_the_covariance_says_when_too_little_is_known() -> None:
    board, plant = believed(resolved(
        "estimator.std_limit={V = 0.05}", "estimator.process_noise=0.1",
        "estimator.sensor_timeout={encoder_left = 9.0, encoder_right = 9.0}",
    ))  # fmt: skip
    assert after(plant, board, 20) == ("", "")
    name, text = after(plant, board, 100, lambda: board.readings("gyroscope"))
    assert (name, text[:9]) == ("estimate", "V is know")
    assert 1.0 * 0.1 * math.sqrt((board.k - 210) * 1e-3) == pytest.approx(0.05, rel=0.1)  # a random walk


def without(name: str) -> Any:
    """Good readings of all other sensors."""
    return lambda board: board.readings(*(each for each in SENSORS if each != name))


def instead(name: str, value: float, late: float = 0.0) -> Any:
    """Good readings of all sensors but one, which reads this, of so many steps ago."""
    return lambda board: board.readings() | {name: [board.k - late, value]}


@pytest.mark.parametrize(
    ("settings", "good", "borne", "wrong", "name", "text"),
    [
        *(
            ((), 10, 10, without(each), "sensor_lost", f"no reading of {each} for 0.12 s; check the sensor and its wir")
            for each in SENSORS
        ),
        (("estimator.sensor_timeout={gyroscope = 0.5}",), 0, 49, without("gyroscope"), "sensor_lost",
         "no reading of gyroscope for 0.51 s"),
        ((), 60, 10, instead("gyroscope", 0.0, late=500.0), "sensor_lost",  # of which the launch file knows nothing
         "every reading of gyroscope for 0.12 s was too old to be used; give the delay of the sensor"),
        (("estimator.gate=4", "estimator.sensor_timeout={encoder_left = 0.5}"), 0, 49, instead("encoder_left", 0.5),
         "sensor_misfit", "the gate has rejected the last 51 readings of encoder_left, for 0.51 s, the newest "),
    ],
)  # fmt: skip
def test_a_sensor_that_fails_for_its_timeout_is_a_fault_by_its_name(
    settings: tuple[str, ...], good: int, borne: int, wrong: Any, name: str, text: str
) -> None:
    board, plant = believed(resolved(*settings))
    assert after(plant, board, good) == ("", "")
    assert after(plant, board, borne, lambda: wrong(board)) == ("", "")
    found = after(plant, board, 3, lambda: wrong(board))
    assert (found[0], found[1][: len(text)]) == (name, text)
    assert plant.counts["late_readings"] == (12 if "too old" in text else 0)


def test_a_machine_whose_sensor_has_given_old_readings_alone_is_not_known(loop: ClosedLoop) -> None:
    board, plant = asked(loop)
    for k in range(70):
        old = {"gyroscope": [board.k - 490.0, 0.0]} if k >= 60 else {}
        board.says(board.readings("encoder_left", "encoder_right") | old)
        assert not plant.remote.connected()
    assert "every reading of gyroscope for " in plant.remote.no_answer_reason()


def test_a_stall_of_the_machine_is_no_silence_of_a_sensor(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    board.k += 90
    board.now += 90 * MS
    assert after(plant, board, 3, lambda: board.readings("encoder_left", "encoder_right")) == ("", "")


def test_a_late_reading_that_makes_the_filter_diverge_is_a_fault_and_the_estimate_stays(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    assert after(plant, board, 20) == ("", "")
    before, deviations = plant.x.copy(), list(plant.read().estimate.std.values())  # type: ignore[union-attr]
    wrong = lambda: board.readings("gyroscope") | {"encoder_left": [board.k - 45.0, 1e200]}  # noqa: E731
    name, text = after(plant, board, 1, wrong)
    assert (name, text[:36]) == ("estimate", "the estimate is no longer finite: th")
    assert np.array_equal(plant.readings.estimated.mean, before[:-1])  # type: ignore[union-attr]
    quality = plant.read().estimate
    assert quality is not None
    assert list(quality.std.values()) == deviations
    assert np.isfinite([*quality.innovation.values(), *quality.consistency.values()]).all()
    plant.begin(4243, board.k)
    board.says()
    assert plant.remote.connected()
    assert after(plant, board, 20) == ("", "")
    assert plant.x == pytest.approx(before, abs=0.01, nan_ok=True)


def test_a_host_that_sleeps_while_it_takes_messages_does_not_take_all_later_ones_for_old(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    came = board.receive

    def asleep(bound: int = 0) -> list[tuple[str, Message]]:
        board.says()
        for _ in range(19):
            board.k += STEPS
            board.now += STEPS * MS
        board.says()
        return came(bound)

    board.receive = asleep  # type: ignore[method-assign]
    plant.advance(STEPS)
    board.receive = came  # type: ignore[method-assign]
    assert after(plant, board, 20) == ("", "")
    assert plant.age < 0.011


def test_nothing_of_a_message_that_is_wrong_is_believed(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    before = plant.x.copy()
    good = board.readings()
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("refused_non_finite", {"readings": good | {"gyroscope": [10.0, math.nan]}}),
        ("refused_non_finite", {"readings": good | {"gyroscope": [10.0, -math.inf]}}),
        ("refused_non_finite", {"readings": good | {"gyroscope": [math.nan, 0.0]}}),
        ("refused_shape", {"readings": good | {"sonar": [10.0, 1.0]}}),
        ("refused_shape", {"readings": good | {"gyroscope": [10.0]}}),
        ("refused_shape", {"state": {"X": 1.0}}),
        ("refused_shape", {"state": packed(loop.machine.description.layout, loop.start[:-1].tolist())}),
        ("refused_shape", {"input": {"U1": 0.0}}),
        ("refused_future", {"readings": good | {"gyroscope": [1e6, 0.0]}}),
        ("refused_future", {"readings": good | {"gyroscope": [-1.0, 0.0]}}),
        ("refused_future", {"readings": good | {"gyroscope": [0.5, 0.0]}}),
        ("refused_src", {"src": 8}),
    ]
    for reason, changes in wrong:
        counted = plant.counts[reason]
        board.says(**changes)
        plant.advance(STEPS)
        assert plant.counts[reason] == counted + 1, (reason, changes, plant.counts)
        assert np.array_equal(plant.x, before, equal_nan=True)
    board.says(readings=UNSET)
    plant.advance(STEPS)
    assert plant.distrust is None


def test_a_machine_far_ahead_of_its_time_is_refused_and_not_followed_step_by_step(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    assert after(plant, board, 3) == ("", "")
    ahead = board.k + 10**15  # a bridge that stamps nanoseconds of the day
    board.says(k=ahead, t=ahead * 1e-3)
    plant.advance(STEPS)
    assert plant.counts == {"refused_future": 1}
    board.k += 1000  # what a clock may be ahead
    assert after(plant, board, 3) == ("", "")


def test_sensors_that_freeze_while_it_drives_are_a_fault() -> None:
    board, plant = believed(resolved("plant.initial.V=0.2"), speed=0.2)
    theta = 0.0
    stuck = lambda: board.readings("gyroscope") | {each: [float(board.k), theta] for each in SENSORS[:2]}  # noqa: E731
    for _ in range(60):
        board.says()
        plant.advance(STEPS)
    assert plant.x[4] == pytest.approx(0.2, abs=0.03)
    theta = board.readings("encoder_left")["encoder_left"][1]
    assert after(plant, board, 60, stuck)[0] == "sensor_misfit"


@pytest.mark.parametrize(("noise", "torque"), [(0.001, 0.005), (0.02, 0.3), (5.0, 0.03)])
def test_dead_sensors_are_found_though_a_filter_would_see_a_machine_that_stands(noise: float, torque: float) -> None:
    board, plant = believed(resolved(f"estimator.process_noise={noise}"))
    plant.write(np.array([torque, torque]))
    still = lambda: {name: [float(board.k), 0.0] for name in SENSORS}  # noqa: E731
    name, text = after(plant, board, 100, still, input={"U1": torque, "U2": torque})
    assert name == "frozen_state"
    assert text.startswith("the readings of encoder_left, encoder_right are the same, bit by bit, for 0.5 s")


def test_a_machine_that_stands_under_zero_input_is_not_frozen(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    assert after(plant, board, 300) == ("", "")
    plant.readings.estimated._filter.x[4] = 0.002  # type: ignore[union-attr]  # known no better than that
    assert after(plant, board, 300) == ("", "")


def test_readings_that_cannot_be_this_machines_are_a_fault_after_a_while(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    turned = lambda: board.readings("encoder_left", "encoder_right") | {"gyroscope": [float(board.k), 2.0]}  # noqa: E731
    name, text = after(plant, board, 30, turned)
    assert name in ("sensor_misfit", "implausible_state")
    assert "gyroscope" in text or "encoder" in text
    assert 100 <= plant.readings.estimated._k - 10 <= 140  # type: ignore[union-attr]


def test_an_outlier_is_rejected_counted_and_moves_nothing() -> None:
    board, plant = believed(resolved("estimator.gate=4"))
    assert after(plant, board, 20) == ("", "")
    before = plant.x.copy()
    wrong = lambda: board.readings() | {"encoder_left": [float(board.k), 0.5]}  # noqa: E731
    assert after(plant, board, 3, wrong) == ("", "")
    assert plant.counts == {"rejected_encoder_left": 3}
    assert plant.x == pytest.approx(before, abs=1e-3, nan_ok=True)
    quality = plant.read().estimate
    assert quality is not None
    assert quality.rejected == {"encoder_left": 3.0}
    assert quality.innovation["encoder_left"] == pytest.approx(0.5, abs=0.01)
    assert after(plant, board, 20) == ("", "")
    assert plant.counts == {"rejected_encoder_left": 3}


@pytest.mark.parametrize("off", [0.3, 1.0, 40.0])
def test_counters_that_stand_elsewhere_are_never_known_behind_a_gate_either(off: float) -> None:
    """Not later either, when the filter has become unsure enough to take them."""
    board, plant = asked(resolved("estimator.gate=4"))
    for _ in range(1100):
        board.says(lambda: board.readings("gyroscope") | {name: [float(board.k), off] for name in SENSORS[:2]})
        assert not plant.remote.connected()
    assert plant.remote.no_answer_reason().startswith("the first reading of encoder_left is ")


def test_a_first_reading_that_is_an_outlier_refuses_no_machine_behind_a_gate() -> None:
    board, plant = asked(resolved("estimator.gate=4"))
    board.says(lambda: board.readings() | {"encoder_left": [float(board.k), 40.0]})
    for _ in range(400):
        board.says()
        if plant.remote.connected():
            break
    assert plant.remote.connected(), plant.remote.no_answer_reason()


def test_a_robot_whose_counters_stand_elsewhere_than_the_file_says_is_refused(loop: ClosedLoop) -> None:
    board, plant = asked(loop)
    board.says(lambda: board.readings("gyroscope") | {name: [float(board.k), 40.0] for name in SENSORS[:2]})
    assert not plant.remote.connected()
    assert "the first reading of encoder_left" in plant.remote.no_answer_reason()


def test_after_a_reset_the_estimate_goes_on_where_the_machine_has_been_moving_unseen(loop: ClosedLoop) -> None:
    board, plant = believed(loop, speed=0.0)
    board.speed = 0.0
    assert after(plant, board, 50) == ("", "")
    board.k += 2000  # two seconds in which nothing came
    board.now += 2000 * MS
    plant.begin(4243, board.k)
    board.says()
    assert plant.remote.connected()
    assert after(plant, board, 30) == ("", "")
    assert plant.x[6] == pytest.approx(0.0, abs=0.01)


def test_what_is_found_by_the_first_readings_after_a_reset_is_no_jump() -> None:
    board, plant = believed(resolved("plant.initial.V=0.4"), speed=0.4)
    after(plant, board, 50)
    theta = board.readings("encoder_left")["encoder_left"][1]
    board.k += 3000  # three seconds in which nothing came: it has stopped at once
    board.now += 3000 * MS
    plant.begin(4243, board.k)
    stopped = lambda: board.readings("gyroscope") | {each: [float(board.k), theta] for each in SENSORS[:2]}  # noqa: E731
    board.says({})
    assert not plant.remote.connected()
    far = plant.x[0]
    assert after(plant, board, 10, stopped) == ("", "")
    assert plant.remote.connected()
    assert far - plant.x[0] > 1.0
    assert plant.x[4] == pytest.approx(0.0, abs=0.01)


def test_a_machine_that_has_started_anew_is_not_known(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    plant.begin(4243, board.k)
    board.src = 8
    board.says()
    assert not plant.remote.connected()
    assert "the machine has restarted, so its sensors may count from zero" in plant.remote.no_answer_reason()


def test_a_machine_whose_own_limits_are_smaller_is_told_of_while_it_clamps(loop: ClosedLoop) -> None:
    board, plant = believed(loop)
    plant.write(np.array([0.03, -0.02]))
    assert after(plant, board, 1, input={"U1": 0.03 * (1 - 1e-7), "U2": -0.02}) == ("", "")
    assert "machine_clamped" not in plant.extra
    for left, right, clamps in ((0.01, -0.02, 1.0), (0.03, -0.01, 1.0), (0.03, -0.02, 0.0)):
        after(plant, board, 1, input={"U1": left, "U2": right})
        assert plant.extra["machine_clamped"] == clamps
    after(plant, board, 1, input={"U1": 0.0, "U2": 0.0}, extra={"machine_safe": 1.0})  # its own safe action acts
    assert plant.counts["machine_clamped"] == 2


# the launch file


def test_readings_alone_need_an_estimator_and_a_driver_that_can_do_with_them() -> None:
    words = ["plant.driver=udp", "run.speed=1", 'plant.device.address="127.0.0.1:1"', "plant.device.sends=readings"]
    with pytest.raises(
        LaunchError, match=r'"readings" says that the machine sends no state, and there is no \[estimator\]'
    ):
        resolve(read_launch("trailer_pursuit", words), strict=False)
    own = resolve(read_launch("trailer_pursuit", [*ESTIMATED]), strict=False)
    assert own.device_estimate is None
    assert any("plant.device.sends is not used" in each for each in own.connection.remarks(own.machine, own.start))


@pytest.mark.parametrize(
    "driver", [("serial", 'plant.device.port="/dev/null"'), ("udp", 'plant.device.address="127.0.0.1:1"')]
)
@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_an_estimator_of_a_machine_that_sends_packets_of_its_state_is_refused(driver: Any, mode: str) -> None:
    """There are no readings beside the state in a packet, so nothing could ever be estimated."""
    name, place = driver
    words = [f"plant.driver={name}", place, f"run.mode={mode}", "run.speed=1"]
    with pytest.raises(LaunchError) as refused:
        resolve(read_launch("trailer_estimated", words), strict=False)
    assert (refused.value.section, refused.value.key) == ("estimator", None)
    text = str(refused.value)
    assert text.startswith(f'trailer_estimated [estimator]: packets of driver = "{name}" carry the state or readings')
    assert 'give plant.device.sends = "readings"' in text
    assert resolve(read_launch("trailer_estimated", [*words, "plant.device.sends=readings"]), strict=False).estimation


@pytest.mark.parametrize(
    "driver", ["simulated", "loopback", pytest.param("mujoco", marks=needs_wing("robots")), "external"]
)
def test_an_estimator_of_a_machine_that_sends_readings_beside_its_state_is_not(driver: str) -> None:
    if driver == "mujoco" and not MUJOCO:
        pytest.skip(NO_MUJOCO)
    words = [f"plant.driver={driver}", "run.speed=1", "plant.safety.limit=0.4"]
    assert resolve(read_launch("trailer_estimated", words), strict=False).device_estimate is None


def test_a_machine_that_does_the_other_is_named(loop: ClosedLoop) -> None:
    board, plant = asked(loop)
    board.says(state=packed(loop.machine.description.layout, loop.start[:-1].tolist()))
    assert not plant.remote.connected()
    assert plant.remote.no_answer_reason().startswith("the machine sends its state; leave plant.device.sends out")
    own = resolve(read_launch("trailer_pursuit"), strict=False)
    board, plant = asked(own)
    board.says()
    assert not plant.remote.connected()
    assert plant.remote.no_answer_reason().startswith("the machine sends no state; give plant.device.sends")


def test_firmware_that_knows_no_state_is_sent_no_brake_of_states(loop: ClosedLoop) -> None:
    transport = Transport("board")
    estimates = (None, loop.device_estimate)
    brakes = [PacketLink(transport, context(loop.machine, loop.start, estimate=each)).safe.any() for each in estimates]
    assert brakes == [True, False]
    found = loop.connection.remarks(loop.machine, loop.start)
    assert any("firmware that sends only readings has no state for the safe action" in each for each in found)
