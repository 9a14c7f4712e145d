"""The public environments of gymnasium: `servonode.Env`, one machine, and `servonode.VectorEnv`, many at once."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from servonode.api import Launch, launch_of
from servonode.closed_loop.closed_loop import resolve
from servonode.errors import NotInstalled, StatementError, check_choice, installing
from servonode.wings.explore.environments.batch import Batch
from servonode.wings.explore.environments.episodes import Episodes, mapping_of, values_of
from servonode.wings.explore.environments.kernel import (
    DURATION,
    END,
    FAULT,
    GOES_ON,
    IMPLAUSIBLE,
    NO_REWARD,
    NOT_FINITE,
)
from servonode.wings.explore.environments.pictures import Pictures
from servonode.wings.explore.environments.stated import Stated

try:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.spaces import Box
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
    from gymnasium.vector.utils import batch_space

    from servonode.wings.explore.environments.registered import id_of, register_all
except ImportError as error:
    text = f"an environment needs {error.name}; install it with {installing('gym')}"
    raise NotInstalled(text, name=error.name) from error

Array = np.ndarray[Any, Any]
Info = dict[str, Any]
LARGEST = float(np.finfo(np.float32).max)  # of an observation: gymnasium wants bounds, and a state has none
REASONS = {NOT_FINITE: "state_not_finite", IMPLAUSIBLE: "implausible_state", NO_REWARD: "reward_not_finite"}
REASONS |= {DURATION: "duration"}
register_all()


class _Environment:
    """What both environments are: a batch of machines, their episodes, names and spaces."""

    observation_names: tuple[str, ...]
    observation_units: tuple[str, ...]
    action_names: tuple[str, ...]
    limits: Array
    reward: str

    def _make(
        self, launch: Launch, n: int, threads: int | None, reward: str | float | None,
        terminate: str | Sequence[str], vary: Mapping[str, Any] | None, code: bool, overrides: dict[str, Any],
    ) -> tuple[Box, Box]:  # fmt: skip
        """Make all of it; the spaces of one machine's observation and action."""
        base = resolve(launch_of(launch, overrides, type(self)), strict=True, code=code)
        self._episodes = Episodes(base, vary or {})
        self._stated = Stated.of(base, reward, terminate)
        self._batch = Batch(base, self._stated, n, threads, self._episodes.apart)
        machine, control = base.machine.description, base.known_control
        self.action_names = machine.input_names
        self.observation_names = (*machine.state_names, *(f"goal_{name}" for name in control.targets.entries))
        self.observation_units = (*(each.unit for each in machine.state), *("SI" for _ in control.targets.entries))
        self.limits, self.reward = np.array(base.safety.limits.value), self._stated.reward
        self._faults = [each.name for each in machine.faults]
        observation = Box(-LARGEST, LARGEST, (len(self.observation_names),), np.float64)
        return observation, Box(-1.0, 1.0, (len(self.action_names),), np.float32)

    def _begin_episode(self, e: int, rng: np.random.Generator, given: Mapping[str, float]) -> Info:
        """Begin an episode of machine e, with these values of keys; its info."""
        values, closed_loop = self._episodes.draw(rng, given)
        self._batch.place(e, closed_loop)
        return {"values": values} if values else {}

    def _actions(self, given: Any, n: int) -> Array:
        """Actions as numbers (n, n_inputs). Raises StatementError where they are not as many."""
        wanted = (n, len(self.action_names))
        try:
            found = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.size != n * wanted[1] or found.shape[-1:] != wanted[1:]:
            shape = wanted if n > 1 else wanted[1:]
            text = f"an action of shape {np.shape(given)} does not fit; give numbers of shape {shape}, for "
            raise StatementError(text + ", ".join(self.action_names))
        return found.reshape(wanted)

    def _reason(self, e: int) -> str:
        """Why machine e's episode has ended."""
        status = int(self._batch.status[e])
        if status >= END:
            return self._stated.texts[status - END]
        return REASONS[status] if status < FAULT else self._faults[status - FAULT - 1]

    def close(self, **_: Any) -> None:
        """End all episodes, as far as they have begun."""
        self._begun = False


class Env(_Environment, gymnasium.Env[Array, Array]):
    """A machine with its goal as an environment: its action is the inputs that a law would give.

    An action has for each of `action_names` its share of the input's limit in `limits`, from -1 to 1. It goes through
    all limits, delays, drives and sensors of the launch file: given the same inputs, the states have the bits of
    `simulate`. An observation has the values of `observation_names` in `observation_units`: the states as a controller
    gets them, then the goal with its derivatives at that instant ("SI"). `reward` has the expression of the reward.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012  (gymnasium's own)

    def __init__(
        self,
        launch: Launch,
        *,
        reward: str | float | None = None,
        terminate: str | Sequence[str] = (),
        vary: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        code: bool = True,
        **overrides: Any,
    ) -> None:
        """The environment of a launch file.

        Args:
            launch, code, overrides: see `servonode.load`. Each input needs a limit; an episode is truncated after
                run.duration.
            reward: of a step, an expression of what stands after it: t, states, work, inputs, residual_NAME,
                goal_NAME, and fault, 1 where one ends the episode. Default: 1/(1 + the residuals squared), less up to
                0.01 for the inputs.
            terminate: conditions that end an episode, such as "abs(phi) > 1.5"; a machine's faults do anyway.
            vary: keys of the launch file whose values are drawn for each episode, as in `servonode.sweep`.
            render_mode: "rgb_array" has `render` draw the machine as a movie of a run does.

        Raises:
            LaunchError, CacheError, CallError: as `load`, or there is no environment of it; StatementError: reward or
            a condition is no such expression; NotInstalled: gymnasium is missing.

        >>> import servonode
        >>> env = servonode.Env("trailer_pursuit", plant__safety__limit=0.5)
        >>> observation, info = env.reset(seed=1)
        >>> observation, reward, terminated, truncated, info = env.step([0.1, 0.1])
        >>> env.observation_names[:4], env.action_names, round(env.limits[0], 1)
        (('X', 'Y', 'psi', 'phi'), ('U1', 'U2'), 0.5)
        """
        if render_mode not in (None, "rgb_array"):
            raise StatementError(f'render_mode={render_mode!r} is unknown; give "rgb_array", or leave it out')
        self.observation_space, self.action_space = self._make(launch, 1, 1, reward, terminate, vary, code, overrides)
        stated = {"launch": launch, "reward": reward, "terminate": terminate, "vary": vary, "code": code}
        stated |= overrides | ({"render_mode": render_mode} if render_mode else {})
        self.spec = EnvSpec(id_of(launch), "servonode:Env", kwargs=stated, vector_entry_point="servonode:VectorEnv")
        base = self._batch.base
        self._period = (base.launch.steps_per_period or 1) * base.launch.step_ns / 1e9
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, round(1 / self._period))}
        self.render_mode, self._pictures = render_mode, Pictures(base) if render_mode else None
        self._begun = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was stated, as gymnasium's EzPickle does: what is made of it has not begun."""
        assert self.spec is not None
        return partial(type(self), **self.spec.kwargs), ()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Env":
        """A copy that stands where this one does."""
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__dict__.update(deepcopy(self.__dict__, memo))
        return made

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Begin an episode: the first observation, and in `values` what was drawn for it, by key.

        options: {"values": {KEY: VALUE}} gives keys that vary their value instead.
        """
        super().reset(seed=seed)
        for key, value in (given := values_of(options)).items():
            if np.ndim(value):
                raise StatementError(f"values: {key} has the shape {np.shape(value)}; give one number")
        info = self._begin_episode(0, self.np_random, given)
        self._begun = True
        if self._pictures:
            self._pictures.begin()
            self._keep(self._pictures)
        return self._batch.observed[0].copy(), info

    def _keep(self, pictures: Pictures) -> None:
        part, n = self._batch.arrays, self._batch.base.machine.n_state
        pictures.keep(int(part["instants"][0]) * self._period, part["x"][0], part["u"][0], part["observed"][0][n:])

    def render(self) -> Array | None:
        """The picture of the episode now, (height, width, 3) of uint8; None without render_mode.

        Raises:
            StatementError: no episode has begun.
        """
        if self._pictures is None:
            return None
        if not self._begun:
            raise StatementError("no episode has begun, so there is nothing to draw; call reset()")
        return self._pictures.frame()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Let a control period pass under the inputs of this action.

        Returns:
            The observation at the next control instant, the reward, whether a fault or a condition has ended the
            episode, whether its duration has, and then in `reason` which one.

        Raises:
            StatementError: the action does not fit, or there is no episode that goes on.
        """
        batch = self._batch
        if not self._begun or batch.status[0] != GOES_ON:
            text = "has ended; call reset() to begin the next one" if self._begun else "has not begun; call reset()"
            raise StatementError(f"the episode {text}")
        batch.step(self._actions(action, 1))
        if self._pictures:
            self._keep(self._pictures)
        status = int(batch.status[0])
        info = {"reason": self._reason(0)} if status != GOES_ON else {}
        ended = status not in (GOES_ON, DURATION)
        return batch.observed[0].copy(), float(batch.rewards[0]), ended, status == DURATION, info


class VectorEnv(_Environment, GymnasiumVectorEnv[Array, Array, Array]):
    """Many environments of one launch file, which step together in compiled code: see `Env`.

    Environment i has the bits of an `Env` that was reset with seed + i. Where an episode ends, autoreset_mode says when
    the next one begins, as gymnasium defines it.
    """

    def __init__(
        self,
        launch: Launch,
        num_envs: int = 64,
        *,
        reward: str | float | None = None,
        terminate: str | Sequence[str] = (),
        vary: Mapping[str, Any] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        code: bool = True,
        **overrides: Any,
    ) -> None:
        """num_envs environments.

        Args:
            launch, reward, terminate, vary, code, overrides: see `Env`.
            autoreset_mode: "NextStep", "SameStep" or "Disabled".
            threads: at most so many; default: one for each processor. The bits are the same.

        Raises: as `Env`.

        >>> import servonode
        >>> envs = servonode.VectorEnv("trailer_pursuit", 4, plant__safety__limit=0.5)
        >>> observations, infos = envs.reset(seed=1)
        >>> observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
        >>> observations.shape, rewards.shape
        ((4, 14), (4,))
        """
        for word, value in (("num_envs", num_envs), ("threads", 1 if threads is None else threads)):
            if not isinstance(value, int) or value < 1:
                raise StatementError(f"{word} = {value!r:.40} is no whole number from 1 on; give one")
        stated: dict[str, Any] = {"reward": reward, "terminate": terminate, "vary": vary, "code": code}
        stated |= {"autoreset_mode": autoreset_mode, "threads": threads, **overrides}
        self._stated_anew = partial(type(self), launch, num_envs, **stated)
        modes = [each.value for each in AutoresetMode]
        check_choice("autoreset_mode", getattr(autoreset_mode, "value", autoreset_mode), modes)
        self._mode, self.num_envs = AutoresetMode(autoreset_mode), num_envs
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
        try:
            made = self._make(launch, num_envs, threads, reward, terminate, vary, code, overrides)
        except MemoryError:
            raise StatementError(f"num_envs = {num_envs} needs more memory than there is; give fewer") from None
        self.single_observation_space, self.single_action_space = made
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._random = [seeding.np_random()[0] for _ in range(num_envs)]
        self._ended, self._some_ended = np.full(num_envs, False), False
        self._begun = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, Info]:
        """Begin an episode of each environment, see `Env.reset`.

        seed: of environment 0, the others have those that follow; or one of each. options: "reset_mask" (num_envs,)
        says which of them begin anew, the others go on; a value may be an array (num_envs,), one for each.
        """
        some = range(self.num_envs)
        seeds = seed if isinstance(seed, Sequence) else [None if seed is None else seed + i for i in some]
        if len(seeds) != self.num_envs:
            raise StatementError(f"seed: {len(seeds)} are given for {self.num_envs} environments; give one for each")
        others = dict(mapping_of(options))
        mask = np.asarray(others.pop("reset_mask", np.full(self.num_envs, True)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            text = f"options: reset_mask is {mask.dtype} of shape {mask.shape}; give one bool for each environment"
            raise StatementError(text)
        for i, each in enumerate(seeds):
            if each is not None and mask[i]:
                self._random[i] = seeding.np_random(each)[0]
        infos = self._begin(np.flatnonzero(mask).tolist(), {}, others)
        self._begun = True
        return self._batch.observed.copy(), infos

    def _begin(self, which: list[int], infos: Info, options: Mapping[str, Any] | None = None) -> Info:
        given = {key: self._of_each(key, value) for key, value in values_of(options).items()}
        for i in which:
            values = {key: each[i] for key, each in given.items()}
            infos = self._add_info(infos, self._begin_episode(i, self._random[i], values), i)
            self._ended[i] = False
        self._some_ended = bool(self._ended.any())
        return infos

    def _of_each(self, key: str, value: Any) -> list[Any]:
        """A value of options, one for each environment."""
        if np.ndim(value) and np.shape(value) != (self.num_envs,):
            shape = np.shape(value)
            raise StatementError(f"values: {key} has the shape {shape}; give a number, or {self.num_envs} of them")
        return np.asarray(value).tolist() if np.ndim(value) else [value] * self.num_envs

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was stated: what is made of it has not begun."""
        return self._stated_anew, ()

    def sb3(self) -> Any:
        """The environments as a VecEnv of Stable-Baselines3, for its algorithms; made with autoreset_mode="SameStep".

        Raises:
            NotInstalled: stable_baselines3 is missing; StatementError: autoreset_mode is another one.
        """
        from servonode.wings.explore.environments.stable_baselines import Vectorised

        if self._mode is not AutoresetMode.SAME_STEP:
            text = f'autoreset_mode is "{self._mode.value}", and a VecEnv begins the next episode in the same step'
            raise StatementError(f'{text}; give autoreset_mode="SameStep"')
        return Vectorised(self)

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, Info]:
        """Let a control period pass in each environment; as `Env.step`, with an entry for each.

        Raises:
            StatementError: the actions do not fit, or with autoreset_mode "Disabled" an episode has ended.
        """
        batch = self._batch
        if not self._begun or (self._mode is AutoresetMode.DISABLED and self._some_ended):
            which = f"episode {int(np.argmax(self._ended))} has ended" if self._begun else "no episode has begun"
            raise StatementError(f"{which}; call reset(), with options={{'reset_mask': ...}} for some of them")
        again = np.flatnonzero(self._ended).tolist() if self._some_ended else []
        batch.step(self._actions(actions, self.num_envs))
        infos: Info = {}
        if again:
            infos = self._begin(again, infos)
            batch.rewards[again] = 0.0
        rewards, status = batch.rewards.copy(), batch.status
        truncated, self._ended = status == DURATION, status != GOES_ON
        terminated = self._ended ^ truncated
        self._some_ended = bool(self._ended.any())
        if self._some_ended:
            infos = self._finished(infos)
        return batch.observed.copy(), rewards, terminated, truncated, infos

    def _finished(self, infos: Info) -> Info:
        """The infos of the episodes that have ended now; where the mode is so, the next ones begin."""
        batch, ended = self._batch, np.flatnonzero(self._ended).tolist()
        same_step = self._mode is AutoresetMode.SAME_STEP
        for i in ended:
            info: Info = {"reason": self._reason(i)}
            last = {"final_obs": batch.observed[i].copy(), "final_info": info} if same_step else info
            infos = self._add_info(infos, last, i)
        return self._begin(ended, infos) if same_step else infos
