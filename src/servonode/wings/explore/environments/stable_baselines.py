"""A `VectorEnv` as Stable-Baselines3 wants it, which is imported here and nowhere else."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.errors import NotInstalled, StatementError
from servonode.wings.explore.environments.episodes import values_of

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    text = "sb3() needs stable_baselines3; install it with pip install stable-baselines3"
    raise NotInstalled(text, name=error.name) from error


class Vectorised(VecEnv):  # type: ignore[misc]
    """Many environments as one VecEnv: the next episode begins in the step that ends one."""

    def __init__(self, envs: Any) -> None:
        self.envs, self.render_mode, self._actions = envs, None, np.zeros(0)
        self.seeds: list[int] | None = None
        self.values: dict[str, Any] = {}
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Begin all episodes."""
        observed, _ = self.envs.reset(seed=self.seeds, options={"values": self.values} if self.values else None)
        self.seeds, self.values = None, {}
        return observed

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed environment i with seed + i at the next reset."""
        self.seeds = None if seed is None else [seed + i for i in range(self.num_envs)]
        return self.seeds or [None] * self.num_envs

    def set_options(self, options: Any = None) -> None:
        """Options of the next reset: {"values": {KEY: VALUE}}, or a list with one for each."""
        several = options if isinstance(options, list) else [options]
        given = [dict(values_of(each)) for each in several]
        if any(each.keys() != given[0].keys() for each in given):
            raise StatementError("options: values of other keys in some environments; give all the same keys")
        of_each = len(given) > 1
        self.values = {key: [each[key] for each in given] if of_each else value for key, value in given[0].items()}

    def step_async(self, actions: Array) -> None:
        """Take the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Let a control period pass under them."""
        observed, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        ended = terminated | truncated
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended).tolist():
            told[i] = {"terminal_observation": infos["final_obs"][i], "reason": infos["final_info"]["reason"][i]}
            told[i]["TimeLimit.truncated"] = bool(truncated[i])
        return observed, rewards.astype(np.float32), ended, told

    def close(self) -> None:
        """End all episodes."""
        self.envs.close()

    def _of(self, indices: Any) -> range | list[int]:
        return range(self.num_envs) if indices is None else [indices] if isinstance(indices, int) else list(indices)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the VectorEnv, once for each."""
        return [self.render_mode if attr_name == "render_mode" else getattr(self.envs, attr_name)] * len(
            self._of(indices)
        )

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """All have the attribute of the VectorEnv."""
        if len(self._of(indices)) != self.num_envs:
            raise NotImplementedError("the environments of a VectorEnv have their attributes together")
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Refused: there is no single environment."""
        raise NotImplementedError(f"{method_name}: a VectorEnv has no single environments; call it of .envs")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
        """None of them is."""
        return [False] * len(self._of(indices))
