"""Environments: gymnasium's own checker, the bits of `simulate` for one and for many, episodes, errors."""

import copy
import importlib.util
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RenderCollection

import servonode
from servonode.closed_loop.launch_error import LaunchError
from servonode.controllers import PlantView
from servonode.errors import NotInstalled, StatementError
from servonode.mechanics import Model, coordinate, input_
from servonode.wings.explore.environments import registered
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


def without_views() -> Model:
    """A wheel that a motor turns."""
    q, tau = coordinate("q", "angle", "rad"), input_("tau", "torque", "N m")
    return Model(name="wheel", description="a wheel", coordinates=(q,), kinetic=q.rate**2 / 2, inputs={tau: q.rate})


WHEEL = {"plant": {"machine": without_views}, "controller": {"residuals": {"q": "q - sin(t)"}, "period": 0.01}}
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


@pytest.mark.parametrize("order", ["import gymnasium, servonode", "import servonode, gymnasium"])
def test_gymnasium_makes_environments_by_name_whichever_is_imported_first(order: str) -> None:
    text = f"{order}; print(len([each for each in gymnasium.registry if each.startswith('servonode/')]))"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert int(found.stdout) == len(registered.LIMITS) + 1


@pytest.mark.parametrize("name", registered.LIMITS)
def test_what_gymnasium_knows_by_name_can_be_made(name: str) -> None:
    env = gymnasium.make(f"servonode/{name}-v0", run__duration=0.1)
    assert env.spec is not None
    assert env.spec.id == f"servonode/{name}-v0"
    assert env.reset(seed=0)[0] in env.observation_space
    assert np.isfinite(env.step(env.action_space.sample())[0]).all()


def test_any_launch_file_is_made_by_gymnasium_alone_or_many_at_once() -> None:
    launch = LAUNCH | {"controller": {"program": "look_ahead"}}
    stated = {"launch": launch, "vary": {"plant.initial.phi": [-0.5, 0.5]}, **SHORT}
    env, envs = gymnasium.make("servonode/launch-v0", **stated), gymnasium.make_vec("servonode/launch-v0", 3, **stated)
    assert env.spec is not None
    assert env.spec.id == "servonode/launch-v0"
    assert isinstance(envs, VectorEnv)
    assert np.array_equal(envs.reset(seed=5)[0][0], env.reset(seed=5)[0])


def test_an_array_of_values_has_one_for_each_environment() -> None:
    envs = VectorEnv(
        "trailer_pursuit", 3, vary={"plant.initial.phi": [-0.5, 0.5], "plant.parameters.m1": [3, 5]}, **SHORT
    )
    phi = np.array([0.1, -0.2, 0.3])
    observed, infos = envs.reset(seed=1, options={"values": {"plant.initial.phi": phi, "plant.parameters.m1": 4.0}})
    assert observed[:, 3].tolist() == phi.tolist()
    assert infos["values"]["plant.parameters.m1"].tolist() == [4.0] * 3
    for wrong in (np.zeros(2), np.zeros((3, 1))):
        text = refusal(StatementError, envs.reset, options={"values": {"plant.initial.phi": wrong}})
        assert f"plant.initial.phi has the shape {wrong.shape}; give a number, or 3 of them" in text


@pytest.mark.parametrize("name", ["trailer_pursuit", "wheel"])
def test_an_environment_draws_its_episode(name: str) -> None:
    launch: Any = WHEEL if name == "wheel" else name
    env = Env(launch, render_mode="rgb_array", **SHORT)
    assert env.metadata["render_fps"] == 100
    assert "call reset()" in refusal(StatementError, env.render)
    env.reset(seed=1)
    first = env.render()
    for _ in range(8):
        env.step(np.ones(len(env.action_names)))
    last, twin = env.render(), copy.deepcopy(env).render()
    assert first is not None
    assert first.shape == (360, 480, 3)
    assert first.dtype == np.uint8
    assert not np.array_equal(first, last)
    assert twin is not None
    assert twin.shape == first.shape
    env.reset(seed=1)
    assert Env(launch, **SHORT).render() is None


def test_gymnasium_records_a_video_of_an_environment(tmp_path: Path) -> None:
    env = gymnasium.make("servonode/trailer_pursuit-v0", run__duration=0.05, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = RenderCollection(env, pop_frames=False)
        seen.reset(seed=0)
        for _ in range(5):
            seen.step(env.action_space.sample())
    assert [frame.shape for frame in seen.render()] == [(360, 480, 3)] * 6


STARTS = {
    "trailer_pursuit": ["X", "psi", "V", "m1", "d1"], "trailer_reverse": ["phi", "V", "b"],
    "base_rates": ["V", "Omega", "c_w"], "sphero_trajectory": ["X", "Y"], "sphero_pursuit": ["Y", "m"],
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_a_start_in_numbers_alone_has_the_bits_of_a_closed_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = servonode.load(name).closed_loop
    described, near = loop.machine.parameters, dict(zip(loop.machine.description.state_names, loop.start, strict=False))
    keys = {
        f"plant.{'parameters' if each in described else 'initial'}.{each}": [value - 0.01, value + 0.3]
        for each in STARTS[name]
        for value in [float((described | near)[each])]
    }
    env = gymnasium.make(f"servonode/{name}-v0", vary=keys, run__duration=0.1).unwrapped
    arrays, quick = env._batch.arrays, env._episodes._quick
    assert quick.fits
    for seed in range(5):
        env.reset(seed=seed)
        found = {key: np.array(values) for key, values in arrays.items()}
        with monkeypatch.context() as patched:
            patched.setattr(quick, "at", lambda _: None)
            env.reset(seed=seed)
        for key, values in found.items():
            assert np.array_equal(values, arrays[key], equal_nan=values.dtype.kind == "f"), (seed, key)


def test_a_start_on_the_program_or_a_gain_is_no_change_of_numbers_alone() -> None:
    for name, key in [("snowboarder_carve", "plant.initial.v"), ("trailer_pursuit", "controller.gains.lambda")]:
        env = Env(name, plant__safety__limit=100.0, run__duration=0.1, vary={key: [2.0, 2.1]})
        assert not env._episodes._quick.fits
        assert key in env.reset(seed=0)[1]["values"]


def test_what_is_refused_is_refused_in_the_same_words_and_drawn_again() -> None:
    vary = {"plant.parameters.m1": [3.0, 5.0], "plant.initial.phi": [0.0, 1.0]}
    env = Env("trailer_pursuit", vary=vary, **SHORT)
    env.reset(seed=0)
    for wrong, text in [({"m1": -1.0}, "-1 kg must be greater than 0"), ({"m1": 100.0}, "no inertia is left")]:
        values = {f"plant.parameters.{name}": value for name, value in wrong.items()} | {"plant.initial.phi": 0.1}
        assert text in refusal(LaunchError, env.reset, options={"values": values})
    with pytest.raises(LaunchError, match="finite"):
        env.reset(options={"values": {"plant.parameters.m1": 4.0, "plant.initial.phi": np.nan}})
    assert env.reset(seed=0)[1]["values"].keys() == vary.keys()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base class of Stable-Baselines3, where it is not installed, as far as its algorithms need it."""
    if importlib.util.find_spec("stable_baselines3"):
        return

    class VecEnv:
        def __init__(self, num_envs: int, observation_space: Any, action_space: Any) -> None:
            self.num_envs, self.observation_space, self.action_space = num_envs, observation_space, action_space

        def step(self, actions: Any) -> Any:
            self.step_async(actions)
            return self.step_wait()

    for name in ("stable_baselines3", "stable_baselines3.common", "stable_baselines3.common.vec_env"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["stable_baselines3.common.vec_env"].VecEnv = VecEnv  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "servonode.wings.explore.environments.stable_baselines", raising=False)


@pytest.mark.usefixtures("stand_in")
def test_stable_baselines3_gets_the_environments_in_one_line() -> None:
    envs = VectorEnv("trailer_pursuit", 3, autoreset_mode="SameStep", vary={"plant.initial.phi": [-0.5, 0.5]}, **SHORT)
    made = envs.sb3()
    made.seed(4)
    made.set_options({"values": {"plant.initial.phi": np.array([0.1, 0.2, 0.3])}})
    assert made.reset()[:, 3].tolist() == [0.1, 0.2, 0.3]
    for _ in range(10):
        observed, rewards, ended, infos = made.step(np.full((3, 2), 0.2, np.float32))
    assert (observed.shape, rewards.dtype, ended.tolist()) == ((3, 14), np.float32, [True] * 3)
    assert [(each["TimeLimit.truncated"], each["reason"]) for each in infos] == [(True, "duration")] * 3
    assert infos[0]["terminal_observation"][4] != observed[0][4] == 0.0
    assert made.get_attr("render_mode", [0]) == [None]
    assert made.env_is_wrapped(object) == [False] * 3
    text = refusal(StatementError, VectorEnv("trailer_pursuit", 3, **SHORT).sb3)
    assert 'give autoreset_mode="SameStep"' in text


def test_without_stable_baselines3_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, "servonode.wings.explore.environments.stable_baselines", raising=False)
    envs = VectorEnv("trailer_pursuit", 2, autoreset_mode="SameStep", **SHORT)
    assert "pip install stable-baselines3" in refusal(NotInstalled, envs.sb3)


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


def test_values_and_counts_that_are_no_numbers_are_refused() -> None:
    env = Env("trailer_pursuit", vary={"plant.initial.phi": [0.0, 1.0]}, **SHORT)
    for wrong, text in [("a", "'a' is not a number"), ([1.0, 2.0], "has the shape (2,); give one number")]:
        assert text in refusal(StatementError, env.reset, options={"values": {"plant.initial.phi": wrong}})
    assert "4.0 is no whole number" in refusal(StatementError, VectorEnv, "trailer_pursuit", 4.0, **SHORT)


def test_many_environments_pickle_as_they_were_stated() -> None:
    envs = VectorEnv("trailer_pursuit", 3, vary={"plant.initial.phi": [0.0, 1.0]}, **SHORT)
    again = pickle.loads(pickle.dumps(envs))
    assert np.array_equal(again.reset(seed=1)[0], envs.reset(seed=1)[0])
