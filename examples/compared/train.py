"""Train the policy of a machine with PPO of Stable-Baselines3, and write it as ONNX beside this file.

    pip install "servonode[gym,policy]" stable-baselines3
    python train.py cart.toml        # some minutes on two cores
    python train.py sphero.toml

The policy learns on 64 environments at once, with other starts, masses and goals in each episode.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor

import servonode
from controllers import Errors

TRAININGS: dict[str, dict[str, Any]] = {
    "cart_pendulum": {
        "reward": "1/(1 + 20*abs(x - goal_X)) - 0.0005*F**2",
        "terminate": ["abs(theta) > 0.8", "abs(x - goal_X) > 2"],
        "vary": {"plant.initial.x": [-1.0, 1.0], "plant.initial.theta": [-0.2, 0.2], "plant.parameters.m": [0.15, 0.25]}
        | {"goal.speed": [0.0, 1.5]},
        "steps": 3_000_000,
    },
    "pendulum_sphero": {
        "reward": "1/(1 + 10*sqrt((X - goal_x)**2 + (Y - goal_y)**2)) - 0.2*(Q_x**2 + Q_y**2) - fault",
        "terminate": "(X - goal_x)**2 + (Y - goal_y)**2 > 2",
        "vary": {"plant.initial.X": [-0.5, 0.5], "plant.initial.Y": [-0.5, 0.5], "plant.parameters.m": [1.8, 2.2]}
        | {"goal.speed": [0.0, 1.2]},
        "steps": 3_000_000,
    },
}


class Seen(VecEnvWrapper):
    """The environments of a machine, seen as the controller will see it."""

    def __init__(self, envs: VecEnv, errors: Errors) -> None:
        self.errors, self.n_state = errors, len(errors.plant.state_names)
        seen, acting = len(errors.sizes), errors.S.shape[1]
        super().__init__(envs, Box(-np.inf, np.inf, (seen,), np.float32), Box(-1.0, 1.0, (acting,), np.float32))

    def seen(self, observed: np.ndarray) -> np.ndarray:
        states, goals = observed[..., : self.n_state], observed[..., self.n_state :]
        return ((states @ self.errors.C.T - goals @ self.errors.G.T) / self.errors.sizes).astype(np.float32)

    def reset(self) -> np.ndarray:
        return self.seen(self.venv.reset())

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(actions.clip(-1, 1) @ self.errors.S.T / self.errors.plant.limits)

    def step_wait(self) -> Any:
        observed, rewards, ended, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self.seen(info["terminal_observation"])
        return self.seen(observed), rewards, ended, infos


def main(launch: str, steps: int | None = None) -> None:
    torch.set_num_threads(1)
    plant = servonode.load(launch).closed_loop.control.law.own.plant
    training = TRAININGS[plant.name]
    stated = {name: training[name] for name in ("reward", "terminate", "vary")}
    errors, envs = Errors(plant), servonode.VectorEnv(launch, 64, autoreset_mode="SameStep", **stated).sb3()
    shape: dict[str, Any] = {"net_arch": [32, 32], "log_std_init": -1.5}
    settings: dict[str, Any] = {"n_steps": 128, "batch_size": 2048, "n_epochs": 5, "gamma": 0.99, "target_kl": 0.02}
    settings |= {"learning_rate": lambda left: 1e-3 * left, "policy_kwargs": shape, "seed": 0, "device": "cpu"}
    model = PPO("MlpPolicy", VecMonitor(Seen(envs, errors)), verbose=1, **settings)
    model.learn(steps or training["steps"])
    mean = torch.nn.Sequential(model.policy.mlp_extractor.policy_net, model.policy.action_net)  # of what it tries
    seen, file = torch.zeros(1, len(errors.sizes)), Path(__file__).with_name(f"{plant.name}.onnx")
    names = {"input_names": ["observation"], "output_names": ["action"]}
    torch.onnx.export(mean.eval(), (seen,), file, **names, external_data=False)
    print(f"wrote {file}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
