"""What a plant takes for a command, what of it acts and when: the test is the controller, on a virtual computer."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

from servonode.bus import Applied, Command, MessageError, State, decode, encode
from servonode.bus.topology import CONTROLLER
from servonode.plants.record_layout import PlantRecordLayout
from tests.safety.cases import HOP, KINDS, WAITS, T, computer
from tests.virtual import MS, Computer, Line, Puppet

LIMIT, RATE, POWER = 0.02, 0.5, 0.002  # of each input, of its change per second, of all together [W]
BUDGET = 4  # periods for which the last command is held
POISON = 1234.5  # an input that must never act
HARSH = (
    WAITS, f"plant.safety.limit={LIMIT}", f"plant.safety.rate_limit={RATE}", f"plant.safety.power_limit={POWER}",
    f"plant.safety.repeats={BUDGET}",
)  # fmt: skip


def steered(kind: str, **options: Any) -> Computer:
    return computer(kind, *HARSH, absent=[CONTROLLER], **options)


def begun(here: Computer) -> tuple[Puppet, Counter[str]]:
    """The test in the place of the controller, once its commands act; the plant's counters then."""
    puppet: Puppet = here.put(CONTROLLER, Puppet)
    here.until_active()
    here.go(2 * T + 3 * HOP)
    return puppet, Counter(here.counts)


def since(here: Computer, before: Counter[str]) -> dict[str, int]:
    """What has been counted since then of commands."""
    return {
        name: n
        for name, n in (Counter(here.counts) - before).items()
        if name not in ("slow_states", "saturated", "resent")
    }


def assert_within_limits(here: Computer) -> None:
    inputs = [sent.input for sent in here.of(Applied)] + [state.input for state in here.of(State)]
    assert len(inputs) > 20
    assert max(abs(value) for values in inputs for value in values.values()) <= LIMIT


def damaged(command: Command) -> Iterator[bytes]:
    """Bytes that differ from a good command in one thing each."""
    good: dict[str, Any] = msgspec.msgpack.decode(encode(command))
    name = next(iter(good["input"]))
    for value in (float("nan"), float("inf"), -float("inf"), True, 2**60, "1", None, [1.0], b"1", 2**64 - 1):
        yield msgspec.msgpack.encode({**good, "input": {**good["input"], name: value}})
    for key in ("run", "re", "input", "seq", "k", "t", "mono", "node", "src"):
        yield msgspec.msgpack.encode({word: value for word, value in good.items() if word != key})
    for key, value in (("re", True), ("re", 1.5), ("run", -1), ("run", "1"), ("k", -2), ("mono", 2**63), ("t", None)):
        yield msgspec.msgpack.encode({**good, key: value})
    yield msgspec.msgpack.encode({**good, "input": [1.0, 2.0]})
    yield msgspec.msgpack.encode({**good, "input": {f"U{i}": 1.0 for i in range(300)}})
    yield msgspec.msgpack.encode({**good, "input": {**good["input"], 5: 1.0}})
    yield from (encode(command)[:-3], encode(command) + b"\x00", b"", b"\xdc\xff\xff", bytes(range(256)))


def refusal_of(payload: bytes) -> str:
    """For which reason the decoder refuses these bytes."""
    with pytest.raises(MessageError) as refused:
        decode(b"command", payload)
    return f"refused_{refused.value.reason}"


@pytest.mark.parametrize("kind", KINDS)
def test_promise_05_old_foreign_and_replayed_commands_are_refused(kind: str) -> None:
    with steered(kind) as here:
        puppet, before = begun(here)

        def answer(state: State) -> list[Command]:
            poison = dict.fromkeys(state.input, POISON)
            changes: list[dict[str, Any]] = [
                {"run": state.run + 1}, {"re": state.seq + 1000}, {"re": state.seq + 2**40}, {"re": state.seq - 2},
                {"re": -1}, {"src": puppet.src + 1},
            ]  # fmt: skip
            wrong = [puppet.good(state, input=poison, **changed) for changed in changes]
            return [*wrong, puppet.good(state), puppet.good(state, input=poison)]

        puppet.answer = answer
        here.go(20 * T)
        expected = {"run": 20, "future": 40, "old": 20, "repeated": 20, "limits": 20, "src": 20}
        assert since(here, before) == {f"refused_{reason}": number for reason, number in expected.items()}
        assert all(POISON not in sent.desired.values() for sent in here.of(Applied))
        assert_within_limits(here)
        assert here.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize("kind", KINDS)
def test_promise_06_what_is_no_command_is_refused_and_counted(kind: str) -> None:
    with steered(kind) as here:
        puppet, before = begun(here)
        expected = Counter[str]()

        def answer(state: State) -> list[Command | bytes]:
            poison = dict.fromkeys(state.input, POISON)
            wrong = list(damaged(puppet.good(state, input=poison)))
            misfits = [{}, {next(iter(poison)): POISON, "X": POISON}, poison | {"more": POISON}]
            expected.update(map(refusal_of, wrong))
            expected["refused_shape"] += len(misfits)
            return [*wrong, *(puppet.good(state, input=values) for values in misfits), puppet.good(state)]

        puppet.answer = answer
        here.go(10 * T)
        assert expected.keys() == {
            f"refused_{reason}" for reason in ("missing", "type", "non_finite", "limits", "malformed", "shape")
        }
        assert since(here, before) == expected
        assert all(POISON not in sent.desired.values() for sent in here.of(Applied))
        assert here.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize("kind", KINDS)
def test_promise_07_no_input_beyond_the_limits_ever_acts(kind: str) -> None:
    with steered(kind) as here:
        puppet, _ = begun(here)
        rng, machine, begin = random.Random(7), here.loop.machine, here.clock()
        asked: dict[int, tuple[State, dict[str, float]]] = {}

        def answer(state: State) -> list[Command]:
            most = 10.0 ** rng.uniform(-4, 300 if rng.random() < 0.1 else 1)
            values = {name: rng.uniform(-0.1 * most, most) for name in state.input}  # it gains speed: power matters
            asked[(command := puppet.good(state, input=values)).seq] = state, values
            return [command]

        puppet.answer = answer
        here.go(80 * T)
        passed = [sent for sent in here.of(Applied, begin) if sent.re in asked]
        assert len(passed) == 80
        names = here.plant.guard.limiter.names
        reasons = {reason for sent in passed for reason in sent.reasons}
        assert reasons == {*(f"limit:{name}" for name in names), *(f"rate:{name}" for name in names), "power"}
        powers = list[float]()
        for earlier, sent in pairwise(passed):
            state, values = asked[sent.re]
            assert (sent.desired, sent.k) == (values, state.k)
            assert sent.reasons or sent.input == values
            x = np.array([*np.hstack(list(state.state.values())), 0.0])
            rates = machine.input_rates(state.t, x)
            powers.append(sum(sent.input[name] * rate for name, rate in zip(names, rates, strict=True)))
            if "power" not in sent.reasons:  # power wins over rate
                change = max(abs(sent.input[name] - earlier.input[name]) for name in names)
                assert change <= RATE * T / 1e9 + 1e-12
        assert 0.99 * POWER < max(powers) <= POWER * (1 + 1e-9)
        assert_within_limits(here)
        assert all(here.counts[reason] > 0 for reason in ("saturated", *reasons))


@pytest.mark.parametrize("kind", KINDS)
def test_promise_08_a_late_command_acts_from_the_step_in_which_it_arrives(kind: str) -> None:
    """Its line takes two periods and a half: each command comes when two newer states have been published."""
    late = 2 * T + T // 2
    with steered(kind, lines={(CONTROLLER, "plant"): (line := Line(HOP))}) as here:
        puppet, before = begun(here)
        line.delay_ns = late
        puppet.answer = lambda state: [puppet.good(state, input=dict.fromkeys(state.input, 1e-6 * state.k))]
        begin = here.clock()
        here.go(30 * T)
        found = Counter(here.counts) - before
        assert found["late_commands"] == 27
        assert found["repeats"] == 29
        states = {state.seq: state for state in here.of(State)}
        commands = {command.seq: command for command in here.of(Command)}
        passed = [sent for sent in here.of(Applied, begin) if sent.re >= 0]
        assert len(passed) == 27
        rows, column = here.plant.record.rows, PlantRecordLayout.of(here.loop.machine.description).inputs.start
        for sent in passed[1:-1]:
            command = commands[sent.re]
            assert sent.mono == command.mono + late == states[command.re].mono + HOP + late
            acting = rows[np.isclose(rows[:, column], 1e-6 * command.k, rtol=1e-6, atol=0), 0]
            assert acting[0] == command.k + (2 * HOP + late) // MS


@pytest.mark.parametrize("kind", KINDS)
def test_promise_08_safe_action_beyond_the_periods_for_which_a_command_is_held(kind: str) -> None:
    with steered(kind) as here:
        puppet, before = begun(here)
        good, begin = puppet.states[-1], here.clock()
        puppet.answer = lambda state: [] if state.k <= good.k + 10 * (BUDGET + 3) else [puppet.good(state)]
        here.go((BUDGET + 12) * T)
        found = Counter(here.counts) - before
        assert (found["over_budget"], found["repeats"]) == (1, BUDGET + 3)
        (safe, *more) = [sent for sent in here.of(Applied, begin) if sent.reasons == ["repeats"]]
        assert (safe.mono, safe.repeats, more) == (good.mono + (BUDGET + 2) * T, BUDGET + 1, [])
        after = [sent for sent in here.of(Applied, begin) if sent.mono > safe.mono]
        assert len(after) == 9
        assert all(sent.re > 0 for sent in after)
        stands = here.ask("status")
        assert (stands["lifecycle"], stands["fault"], stands["safe_state"]) == ("active", "", "nominal")
