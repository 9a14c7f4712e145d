"""Environments: gymnasium's own checker, the bits of `simulate` for one and for many, episodes, errors."""

import copy
import pickle
import threading
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import servonode
from servonode.closed_loop.launch_error import LaunchError
from servonode.controllers import PlantView
from servonode.errors import StatementError
from servonode.wings.explore.environments.environment import Env, VectorEnv
from tests.helpers.refusals import refusal

LIMIT = 2.0**20  # its share of an input is exact
SHORT: dict[str, Any] = {"plant__safety__limit": 0.5, "run__duration": 0.1}
EFFECTS: dict[str, dict[str, Any]] = {
    "perfect": {},
    "delay": {"controller__delay": 2},
    "drives": {"plant__actuator": {"lag": 0.03, "delay": 0.004, "rate_limit": 3.0, "quantum": 1e-3, "dead_zone": 1e-3}},
    "shapes": {"plant__actuator": {"quantum": 1e-2}, "plant__sensor": {"quantum": 1e-3, "bias": 0.01}},
    "limits": {"plant__safety__rate_limit": 5.0, "plant__safety__power_limit": 0.05, "controller__delay": 1},
    "sensors": {"plant__sensor": {"noise": 1e-3, "delay": 0.012}, "run__seed": 5},
    "often": {
        "plant__publish_every": 3,
        "plant__sensor": {"noise": 1e-3},
        "plant__safety__state_limit": {"V": 50.0},
        "run__seed": 3,
    },
}


class Replayed:
    """Gives inputs that are known, and keeps the states that it gets."""

    inputs = np.zeros((0, 2))
    seen: list[np.ndarray] = []  # noqa: RUF012

    def __init__(self, plant: PlantView) -> None:
        self.plant = plant
        type(self).seen = []

    def command(self, t: float, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
        self.seen.append(np.append(state, goal))
        return self.inputs[round(t / self.plant.period)]

    def residuals(self, t: float, state: np.ndarray, goal: np.ndarray) -> dict[str, float]:
        assert len(goal) == 6
        return {"speed": state[4] + t}


LAUNCH = {
    "run": {"duration": 0.4},
    "plant": {"machine": "diff_drive_trailer", "step": 0.001, "publish_every": 10, "initial": {"phi": 0.2}},
    "controller": {"program": Replayed, "period": 0.01},
    "target": {"x": "0.1*t**2", "y": "sin(t)"},
}


def replayed(inputs: np.ndarray, **settings: Any) -> tuple[servonode.Run, np.ndarray]:
    """The run of the trailer under these inputs, and what the controller saw: states, then goals."""
    Replayed.inputs = np.vstack([inputs, inputs[-1:]])
    run = servonode.simulate(LAUNCH, **settings)
    return run, np.array(Replayed.seen)


def stepped(env: Env, actions: np.ndarray, **values: float) -> tuple[np.ndarray, np.ndarray]:
    """The observations from the reset on, and the kernel states (the work last)."""
    found, states = [env.reset(options={"values": values})[0]], [env._batch.x[0].copy()]
    for action in actions:
        found.append(env.step(action)[0])
        states.append(env._batch.x[0].copy())
    return np.array(found), np.array(states)


@pytest.mark.parametrize("name", ["trailer_pursuit", "sphero_cascade", "snowboarder_slalom"])
def test_gymnasium_finds_nothing_to_warn_of(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Env(name, vary={"goal.speed": [0.5, 1.0]}, terminate="work > 5", **SHORT))


@pytest.mark.parametrize("effects", EFFECTS)
def test_an_environment_has_the_bits_of_simulate(effects: str) -> None:
    actions = np.random.default_rng(1).uniform(-1.2, 1.2, (40, 2))
    settings = {"plant__safety__limit": 0.5} | EFFECTS[effects]
    run, seen = replayed(0.5 * actions.clip(-1, 1), **settings)
    env = Env(LAUNCH, reward="-V**2", **settings)
    seed = {"run.seed": settings["run__seed"]} if "run__seed" in settings else {}
    observed, states = stepped(env, actions, **seed)
    assert run.fault is None
    assert np.array_equal(observed, seen)
    rows = np.column_stack([*run.state.values(), run.work])
    assert np.array_equal(states, rows)


LAWS = ["trailer_pursuit", "trailer_hitch_turning", "sphero_pursuit", "sphero_trajectory", "snowboarder_carve"]


@pytest.mark.parametrize("name", LAWS)
def test_an_environment_has_the_residuals_of_the_law(name: str) -> None:
    settings: dict[str, Any] = {"run__duration": 0.3, "plant__safety__limit": LIMIT}
    run = servonode.simulate(name, **settings)
    inputs = np.column_stack(list(run.input.values()))
    actions = inputs[:-1] / np.array(servonode.load(name, **settings).closed_loop.safety.limits.value)
    residual, values = list(run.residual.items())[-1]
    env = Env(name, reward=f"residual_{residual}", **settings)
    env.reset()
    assert [env.step(action)[1] for action in actions] == values[1:].tolist()


VARY = {"plant.parameters.m1": [3.0, 5.0], "plant.initial.phi": [-0.5, 0.5], "target.x": [1.0, 3.0]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("threads", [1, 2])
def test_many_environments_have_the_bits_of_each(mode: str, threads: int) -> None:
    settings = SHORT | {"vary": VARY, "terminate": ("V > 0.07", "phi < -0.4"), "plant__sensor__noise": 1e-4}
    many = VectorEnv("trailer_pursuit", 40, threads=threads, autoreset_mode=mode, **settings)
    each = SyncVectorEnv([lambda: Env("trailer_pursuit", **settings)] * 40, autoreset_mode=AutoresetMode(mode))
    rng, ends = np.random.default_rng(2), set()
    assert_same(many.reset(seed=3), each.reset(seed=3))
    for _ in range(25):
        actions = rng.uniform(-1, 1, (40, 2)) + 0.5
        found = many.step(actions)
        assert_same(found, each.step(actions))
        ends |= {reason for reason in found[4].get("reason", ()) if reason}
    assert mode == "SameStep" or ends == {"duration", "V > 0.07", "phi < -0.4"}


def assert_same(found: Any, wanted: Any) -> None:
    """Whether two results are the same to the last bit, infos included."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, tuple) or getattr(wanted, "dtype", None) == np.object_:
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
    else:
        assert np.array_equal(found, wanted)


def test_an_environment_is_made_again_from_its_specification_or_a_pickle() -> None:
    env = Env("trailer_pursuit", vary=VARY, **SHORT)
    wanted, _ = env.reset(seed=1)
    spec = EnvSpec.from_json(env.spec.to_json()) if env.spec else None
    for again in (gymnasium.make(spec), pickle.loads(pickle.dumps(env))):  # type: ignore[arg-type]
        assert np.array_equal(again.reset(seed=1)[0], wanted)


def test_a_copy_goes_on_where_its_original_stands() -> None:
    env = Env("trailer_pursuit", vary=VARY, plant__sensor__noise=1e-3, **SHORT)
    env.reset(seed=1)
    for _ in range(4):
        env.step([0.3, -0.1])
    twin = copy.deepcopy(env)
    found = [[each.step([0.2, 0.2])[0] for _ in range(6)] + [each.reset()[0]] for each in (env, twin)]
    assert np.array_equal(*found)


def test_stable_baselines3_has_nothing_to_warn_of() -> None:
    """Its rules, beyond those of gymnasium: actions of -1 to 1 in float32, flat observations."""
    env = Env("trailer_pursuit", **SHORT)
    assert (env.action_space.dtype, env.action_space.low.tolist(), env.action_space.high.tolist()) == (
        np.float32, [-1.0, -1.0], [1.0, 1.0],
    )  # fmt: skip
    assert env.observation_space.shape == (14,)
    envs = VectorEnv("trailer_pursuit", 2, **SHORT)
    assert envs.action_space.sample().dtype == np.float32


def test_some_environments_begin_anew_by_a_mask() -> None:
    envs = VectorEnv("trailer_pursuit", 3, autoreset_mode="Disabled", **SHORT)
    before, _ = envs.reset(seed=0)
    for _ in range(10):
        after, _, _, truncated, infos = envs.step(np.full((3, 2), 0.2))
    assert truncated.all()
    assert infos["reason"].tolist() == ["duration"] * 3
    assert "episode 0 has ended; call reset()" in refusal(StatementError, envs.step, np.zeros((3, 2)))
    mixed, _ = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert mixed.tolist() == [before[0].tolist(), after[1].tolist(), before[2].tolist()]
    assert "episode 1 has ended" in refusal(StatementError, envs.step, np.zeros((3, 2)))


def test_the_values_of_an_episode_give_it_again_in_simulate() -> None:
    env = Env("trailer_pursuit", vary=VARY, **SHORT)
    observation, info = env.reset(seed=4)
    assert info["values"].keys() == VARY.keys()
    run = servonode.load("trailer_pursuit", **SHORT).simulate(values=info["values"])
    assert observation[:8].tolist() == [values[0] for values in run.state.values()]
    again, _ = env.reset(options={"values": {"plant.initial.phi": 0.25}})
    assert again[3] == 0.25
    assert env.observation_names[3] == "phi"


def test_a_program_without_residuals_has_an_environment_with_a_stated_reward() -> None:
    env = Env("trailer_open_loop", reward="V + goal_U1", controller__settings={"U1": "2*t", "U2": 0.0}, **SHORT)
    observation, _ = env.reset()
    observation, reward, *_ = env.step([0.5, 0.5])
    assert reward == observation[4] + 0.02
    assert env.observation_names[-1] == "theta2"


def test_a_fault_ends_an_episode() -> None:
    env = Env("trailer_pursuit", reward="1 - 2*fault", plant__safety__state_limit={"V": 0.02}, **SHORT)
    env.reset()
    ended = False
    while not ended:
        observation, reward, ended, truncated, info = env.step([1.0, 1.0])
    assert (reward, truncated, info) == (-1.0, False, {"reason": "implausible_state"})
    assert observation[4] > 0.02
    assert "the episode has ended; call reset()" in refusal(StatementError, env.step, [0.0, 0.0])


def test_a_state_that_is_not_finite_ends_an_episode_at_the_one_before() -> None:
    env = Env("trailer_pursuit", plant__safety__limit=1e49, run__duration=0.1)
    env.reset()
    ended = False
    while not ended:
        observation, reward, ended, _, info = env.step([1.0, -1.0])
    assert info == {"reason": "state_not_finite"}
    assert np.isfinite(observation).all()
    assert np.isfinite(reward)


def test_a_reward_that_is_not_finite_ends_an_episode() -> None:
    env = Env("trailer_pursuit", reward="sqrt(0.02 - t)", **SHORT)
    env.reset()
    results = [env.step([0.0, 0.0])[1:] for _ in range(3)]
    assert [each[0] for each in results] == [0.1, 0.0, 0.0]
    assert results[2][1:] == (True, False, {"reason": "reward_not_finite"})


def test_threads_end_with_their_environments() -> None:
    before = threading.enumerate()
    envs = VectorEnv("trailer_pursuit", 32, threads=2, **SHORT)
    envs.reset(seed=0)
    envs.step(np.zeros((32, 2)))
    (begun,) = [each for each in threading.enumerate() if each not in before]
    del envs
    begun.join(60)
    assert not begun.is_alive()


def test_a_draw_that_is_refused_is_drawn_again() -> None:
    vary = {"plant.parameters.m1": [-1.0, 5.0]}
    env = Env("trailer_pursuit", vary=vary, **SHORT)
    masses = [env.reset(seed=i)[1]["values"]["plant.parameters.m1"] for i in range(20)]
    assert min(masses) > 0
    with pytest.raises(LaunchError, match="m1"):
        env.reset(options={"values": {"plant.parameters.m1": -1.0}})
    hopeless = Env("trailer_pursuit", vary={"plant.parameters.m1": [-2.0, -1.0]}, **SHORT)
    assert "m1" in refusal(LaunchError, hopeless.reset)


@pytest.mark.parametrize("make", [servonode.Env, lambda name, **words: servonode.VectorEnv(name, 2, **words)])
def test_a_step_after_the_end_is_refused(make: Any) -> None:
    env = make("trailer_pursuit", plant__safety__limit=0.5)
    env.reset()
    env.close()
    with pytest.raises(servonode.ServonodeError, match="begun; call reset"):
        env.step(env.action_space.sample())
