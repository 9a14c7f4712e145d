"""A linear policy learns to back a trailer along a line, from ever wilder starts; numpy alone, less than a minute.

    python examples/learning/back_up.py

The cross-entropy method: 24 policies are tried from 4 starts each, all at once, and the next 24 are drawn
around the best ones.
The curriculum: once none of the best folds the trailer, the starts become wilder.
"""

import gymnasium
import numpy as np

import servonode  # noqa: F401  (it has gymnasium know its environments)

POLICIES, BEST, ROUNDS = 24, 6, 30
STARTS = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])  # shares of the widest hitch angle and offset
WIDEST, WIDER = 0.8, 1.25  # rad of hitch angle at the start; how much more once the present one is mastered


def acts(policies, seen):
    """The actions (n, 2) of n policies (n, 6): a speed of -0.4 m/s, and a turn by offset, heading, hitch, yaw rate."""
    Y, psi, phi, V, Omega = seen[:, 1:6].T
    speed, offset, *turn = policies.T
    forward = -speed * (V + 0.4)
    turned = offset * Y + turn[0] * psi + turn[1] * phi + turn[2] * Omega + turn[3] * Y * np.abs(psi)
    return np.clip(np.column_stack([forward - turned, forward + turned]), -1.0, 1.0)


def tried(envs, policies, width):
    """The return of each policy, the mean of its starts, and the share of these after which no trailer folded."""
    phi, Y = np.tile(STARTS * (width, 0.3), (len(policies), 1)).T
    seen, _ = envs.reset(options={"values": {"plant.initial.phi": phi, "plant.initial.Y": Y}})
    policies, ended = np.repeat(policies, len(STARTS), axis=0), np.full(len(phi), False)
    returns, kept = np.zeros(len(phi)), np.full(len(phi), False)
    while not ended.all():
        seen, rewards, terminated, truncated, _ = envs.step(acts(policies, seen))
        returns += rewards * ~ended
        kept |= truncated & ~ended
        ended |= terminated | truncated
    return returns.reshape(-1, len(STARTS)).mean(axis=1), kept.reshape(-1, len(STARTS)).mean(axis=1)


def learn(rounds=ROUNDS, seed=0, say=print):
    """Learn; the policy, and the widest start that it mastered."""
    envs = gymnasium.make_vec(
        "servonode/trailer_reverse-v0", POLICIES * len(STARTS), terminate="abs(phi) > 1.5", run__duration=8.0,
        reward="1 - Y**2 - psi**2 - phi**2 - (V + 0.4)**2",
        vary={"plant.initial.phi": [-1.0, 1.0], "plant.initial.Y": [-1.0, 1.0]},
    )  # fmt: skip
    rng, width, mastered = np.random.default_rng(seed), 0.05, 0.0
    mean, spread = np.zeros(6), np.ones(6)
    for i in range(rounds):
        policies = mean + spread * rng.standard_normal((POLICIES, 6))
        returns, kept = tried(envs, policies, width)
        best = np.argsort(returns)[-BEST:]
        mean, spread = policies[best].mean(axis=0), policies[best].std(axis=0) + 0.03
        say(
            f"round {i:2}  starts up to {width:.2f} rad  return of the best {returns[best].mean():6.1f}  "
            f"kept {kept.mean():4.0%}"
        )
        if kept[best].min() == 1.0:
            mastered, width = width, min(width * WIDER, WIDEST)
    return mean, mastered


if __name__ == "__main__":
    learn()
