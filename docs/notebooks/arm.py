# ruff: noqa: T201
# %% [markdown]
# # From a Lagrangian to real time
#
# A researcher's way with a machine of their own: derive its equations and compare them with the textbook, look at
# matrices, check the goal, simulate, compare the error with its closed form, sample it, and run it in real time, all
# from Python.
#
# The machine is a planar arm with two links and a motor in each joint, under gravity. The goal: its tip follows a
# circle.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm
from sympy import cos, simplify

import servonode

# %% [markdown]
# ## The machine
#
# A run in real time starts processes, and each of them imports the machine. So the machine stands in a file. It
# consists of coordinates, energies, and the inputs with the rates on which they do work.

# %%
MACHINE = '''
"""A planar arm with two links under gravity, a motor in each joint."""

from sympy import cos, sin

from servonode.mechanics import Model, coordinate, input_, output, parameter


def model() -> Model:
    """Point masses at the ends of two links; q1 from the x axis, q2 relative to the first link."""
    q1, q2 = coordinate("q1", "angle of link 1", "rad"), coordinate("q2", "angle of link 2 to link 1", "rad")
    m1 = parameter("m1", "mass at the elbow", "kg", default=1.0, above=0)
    m2 = parameter("m2", "mass at the tip", "kg", default=0.5, above=0)
    l1 = parameter("l1", "length of link 1", "m", default=0.5, above=0)
    l2 = parameter("l2", "length of link 2", "m", default=0.4, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    c = parameter("c", "brake of each joint after a fault", "N m s/rad", default=5.0, at_least=0)
    u1, u2 = input_("u1", "torque of the shoulder", "N m"), input_("u2", "torque of the elbow", "N m")
    elbow_x, elbow_y = -l1 * sin(q1) * q1.rate, l1 * cos(q1) * q1.rate
    both = q1.rate + q2.rate
    tip_x, tip_y = elbow_x - l2 * sin(q1 + q2) * both, elbow_y + l2 * cos(q1 + q2) * both
    height = l1 * sin(q1)
    return Model(
        name="arm",
        description="planar arm with two links",
        coordinates=(q1, q2),
        parameters=(m1, m2, l1, l2, g, c),
        kinetic=(m1 * (elbow_x**2 + elbow_y**2) + m2 * (tip_x**2 + tip_y**2)) / 2,
        potential=m1 * g * height + m2 * g * (height + l2 * sin(q1 + q2)),
        inputs={u1: q1.rate, u2: q2.rate},
        safe={u1: -c * q1.rate, u2: -c * q2.rate},
        outputs=(
            output("tip_x", "position of the tip along x", l1 * cos(q1) + l2 * cos(q1 + q2), "m"),
            output("tip_y", "position of the tip along y", l1 * sin(q1) + l2 * sin(q1 + q2), "m"),
        ),
    )
'''

LAUNCH = """
# Watch for: the tip runs onto its circle and stays on it.
[run]
duration = 4.0

[plant]
machine = "./arm.py:model"
step = 0.001

[plant.initial]
q1 = 0.2
q2 = 1.2

[plant.safety]
command_timeout_floor = 0.5    # s (wall clock); a notebook shares its computer

[controller]
period = 0.01
residuals = { along_x = "tip_x - X", along_y = "tip_y - Y" }

[controller.gains]
lambda = 4.0

[target]
X = "0.45 + 0.15*cos(2*t)"
Y = "0.35 + 0.15*sin(2*t)"
"""
folder = Path(tempfile.mkdtemp())
(folder / "arm.py").write_text(MACHINE)
(folder / "arm.toml").write_text(LAUNCH)
loop = servonode.load(folder / "arm.toml")
print(loop)

# %% [markdown]
# ## The equations against the textbook
#
# For this arm every textbook on robotics has $M_{11} = (m_1 + m_2) l_1^2 + m_2 l_2^2 + 2 m_2 l_1 l_2 \cos q_2$,
# $M_{12} = m_2 l_2^2 + m_2 l_1 l_2 \cos q_2$ and $M_{22} = m_2 l_2^2$.

# %%
equations, servo = loop.equations(), loop.servo()
m1, m2, l1, l2, q2 = (equations.model[name] for name in ("m1", "m2", "l1", "l2", "q2"))
textbook = (
    (m1 + m2) * l1**2 + m2 * l2**2 + 2 * m2 * l1 * l2 * cos(q2),
    m2 * l2**2 + m2 * l1 * l2 * cos(q2),
    m2 * l2**2,
)
derived = (equations.M_r[0, 0], equations.M_r[0, 1], equations.M_r[1, 1])
differences = [simplify(ours - theirs) for ours, theirs in zip(derived, textbook, strict=True)]
print("difference from the textbook", differences)
print("relative degrees", servo.relative_degrees)

# %% [markdown]
# ## Numbers at a state
#
# The law needs the matrix $W$, which maps torques to second derivatives of the residuals. Where the arm is stretched,
# $q_2 = 0$, it is singular: the tip cannot be accelerated along the arm. Its condition number tells how near that is.

# %%
print("torques", loop.law(0.0), "residuals", loop.residuals(0.0))
conditions = {}
for angle in (1.2, 0.3, 0.03):
    conditions[angle] = float(np.linalg.cond(loop.terms(0.0, {"q2": angle})["W"]))
print("condition of W by the angle of the elbow", conditions)

# %% [markdown]
# ## Check
#
# The report before power-on: gains, rank along the run, behaviour after a fault.

# %%
report = loop.check()
print("verdict", report.verdict)
for finding in report.findings:
    print(f"{finding.level:5} {finding.subject}: {finding.text}")

# %% [markdown]
# The warning is right: after a fault the joints are braked by viscous friction, which does not hold the arm against
# gravity. The first link falls at up to 1.6 rad/s and hangs down after 1.5 s. A real arm needs a mechanical brake.

# %% [markdown]
# ## The error against the matrix exponential
#
# Each residual obeys $\ddot f + 2\lambda\dot f + \lambda^2 f = 0$. With $e = (f, \dot f)$ that is $\dot e = A e$, so
# $e(t) = \exp(A t)\, e(0)$, from the initial state of the machine.

# %%
RATE = 4.0
A = np.array([[0.0, 1.0], [-(RATE**2), -2 * RATE]])
continuous, sampled = loop.simulate("continuous"), loop.simulate(every=1)  # every plant step
at_start = loop.terms(0.0)
e0 = np.array([at_start["f"], at_start["f_dot"]])  # (2, number of residuals)
print("residuals and their rates at t = 0", e0)


def predicted(t: np.ndarray) -> np.ndarray:
    """The residuals (times, number of residuals) by the matrix exponential."""
    return np.array([(expm(A * time) @ e0)[0] for time in t])


def distance(run, every: int = 20) -> float:
    """How far the residuals of a run are from the matrix exponential, at most [m]."""
    found = np.column_stack([run.residual["along_x"], run.residual["along_y"]])[::every]
    return float(np.abs(found - predicted(run.t[::every])).max())


errors = {run.control: distance(run) for run in (continuous, sampled)}
print("largest difference [m]", errors)

# %% [markdown]
# The continuous simulation agrees with theory to the tolerance of its integrator. In the sampled one torques are
# constant for 0.01 s; what that adds is proportional to the period:

# %%
by_period = {}
for period in (0.002, 0.005, 0.01, 0.02):
    by_period[period] = distance(servonode.simulate(folder / "arm.toml", controller__period=period))
order = np.polyfit(np.log(list(by_period)), np.log(list(by_period.values())), 1)[0]
print(by_period, "order", order)

# %% [markdown]
# ## In real time
#
# Now the same launch file as plant, controller and target in three processes: first in *lockstep*, where plant time
# waits for every answer, then in real time. `servonode.run` waits for the end and returns a run, as a simulation does.


# %%
def furthest(run) -> float:
    """The largest difference of an angle from the simulation [rad]."""
    return max(float(np.abs(run.state[name] - sampled.state[name]).max()) for name in ("q1", "q2"))


runs = {mode: servonode.run(folder / "arm.toml", run__mode=mode, every=1) for mode in ("lockstep", "realtime")}
gaps = {mode: furthest(run) for mode, run in runs.items()}
print("faults", {mode: run.fault for mode, run in runs.items()})
print("largest difference from the simulation [rad]", gaps)

# %% [markdown]
# In lockstep the numbers are those of the simulation, bit by bit. In real time they differ as far as commands came
# late, which depends on the computer and on what else it does.

# %%
figure, (plane, decay) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
outputs = sampled.outputs
plane.plot(0.45 + 0.15 * np.cos(2 * sampled.t), 0.35 + 0.15 * np.sin(2 * sampled.t), "--", color="0.5", label="target")
plane.plot(outputs["tip_x"], outputs["tip_y"], label="tip")
for i in np.searchsorted(sampled.t, [0.0, 0.5, 1.5, 2.5]):
    elbow = 0.5 * np.array([np.cos(sampled.state["q1"][i]), np.sin(sampled.state["q1"][i])])
    plane.plot(
        [0, elbow[0], outputs["tip_x"][i]], [0, elbow[1], outputs["tip_y"][i]], "o-", color="0.7", ms=3, zorder=0
    )
plane.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
plane.legend(loc="upper left")
times = np.linspace(0.0, 4.0, 200)
live = runs["realtime"]
decay.semilogy(times, np.abs(predicted(times)[:, 0]), "k--", label="matrix exponential", zorder=3)
decay.semilogy(continuous.t, np.abs(continuous.residual["along_x"]), lw=4, alpha=0.4, label="continuous")
decay.semilogy(sampled.t, np.abs(sampled.residual["along_x"]), label="sampled, simulated")
decay.semilogy(live.t, np.abs(live.residual["along_x"]), ":", lw=2, label="sampled, in real time")
decay.set(xlabel="t [s]", ylabel="|residual along x| [m]", ylim=(1e-7, 1))
decay.legend()
plt.show()
