# ruff: noqa: T201
# %% [markdown]
# # A sleigh that drives itself
#
# The Chaplygin sleigh is a plate on a blade: the blade slides along its own direction and not across. Behind the
# blade a small mass moves from side to side. Nothing pushes the sleigh from outside, and yet it gathers speed.
#
# This file runs as a script (`python sleigh.py`) and opens as a notebook in editors that know `# %%`. Machine and
# goal are defined in it; there is no launch file and no module. The tutorial
# [own_machine.md](../tutorials/own_machine.md) explains how a machine is defined.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sympy import Matrix, cos, sin, symbols

import servonode
from servonode.controllers import Program, residual, target
from servonode.mechanics import Model, constraint, coordinate, input_, parameter, velocity


def sleigh() -> Model:
    """A Chaplygin sleigh with a mass that a motor moves sideways."""
    x, y = coordinate("x", "position of the blade along x", "m"), coordinate("y", "position of the blade along y", "m")
    psi = coordinate("psi", "heading of the blade", "rad")
    s = coordinate("s", "place of the moving mass, to the left", "m")
    v, omega = velocity("v", "speed along the blade", "m/s"), velocity("omega", "yaw rate", "rad/s")
    m = parameter("m", "mass of the plate", "kg", default=1.0, above=0)
    mu = parameter("mu", "moving mass", "kg", default=0.3, above=0)
    Ic = parameter("Ic", "yaw inertia of the plate about its centre of mass", "kg m^2", default=0.1, above=0)
    a = parameter("a", "centre of mass ahead of the blade", "m", default=0.2)
    b = parameter("b", "track of the moving mass behind the blade", "m", default=0.2)
    F = input_("F", "force of the motor on the moving mass", "N")

    ahead, left = Matrix([cos(psi), sin(psi)]), Matrix([-sin(psi), cos(psi)])
    blade = Matrix([x.rate, y.rate])
    centre = blade + a * psi.rate * left
    moving = blade - b * psi.rate * left + s.rate * left - s * psi.rate * ahead
    return Model(
        name="sleigh",
        description="Chaplygin sleigh with a moving mass",
        parameters=(m, mu, Ic, a, b),
        coordinates=(x, y, psi, s),
        velocities=(v, omega),
        kinematics={x: v * cos(psi), y: v * sin(psi), psi: omega},
        kinetic=(m * centre.dot(centre) + Ic * psi.rate**2 + mu * moving.dot(moving)) / 2,
        constraints=(constraint("N", "force of the ground on the blade, to the left", left.dot(blade)),),
        inputs={F: s.rate},
    )


# %% [markdown]
# The goal is that the mass follows a target. It is a residual of a coordinate, which has relative degree 2: it must
# be differentiated twice until the force of the motor appears.


# %%
def goal(machine: Model) -> Program:
    """The moving mass follows a target."""
    place = target("place", "wanted position of the moving mass", "m")
    return Program(
        name="shake",
        description="the moving mass follows a target",
        residuals=(residual("place", machine["s"] - place, "place less the wanted one", "m"),),
        targets=(place,),
    )


LAUNCH = {
    "run": {"duration": 60.0},
    "plant": {"machine": sleigh, "step": 0.001, "initial": {"v": 0.05}},
    "controller": {"program": goal, "period": 0.01, "gains": {"lambda": 2.0}},
    "target": {"place": "0.3*sin(3*t)"},
}
loop = servonode.load(LAUNCH)
print(loop)

# %% [markdown]
# ## The equations
#
# `equations()` returns those of the machine and `servo()` those of the goal, both in sympy. After the constraint
# forces have been eliminated, the equations of motion are $M_r \dot v + h_r = B_r F$ with the velocities $(v, \omega,
# \dot s)$.

# %%
equations, servo = loop.equations(), loop.servo()
print(equations.M_r)
print(equations.h_r)
print(servo.relative_degrees, servo.J, servo.delta)

# %% [markdown]
# With the mass held in the middle the first equation is Chaplygin's, $(m + \mu) \dot v = (m a - \mu b)\, \omega^2$.

# %%
v, omega, s_dot = equations.model.velocities
s = symbols("s", real=True)
chaplygin = equations.h_r[0].subs({s: 0, s_dot: 0}).factor()
print(chaplygin)

# %% [markdown]
# ## Numbers at a state
#
# States and inputs are given by name. A state that is not given has its initial value.

# %%
state = {"v": 0.5, "omega": 1.0, "s": 0.1}
print(loop.law(0.0, state), loop.residuals(0.0, state))
print(loop.terms(0.0, state)["W"], loop.matrices(0.0, state).M)
print(loop.outputs(0.0, state, {"F": 0.2}))

# %% [markdown]
# ## Sampled and continuous
#
# The residual has a closed form, $f = (f_0 + (\dot f_0 + \lambda f_0)\, t)\, e^{-\lambda t}$. The continuous
# simulation agrees with it to the tolerance of its integrator. The sampled one has a small error, because its input
# is constant for 0.01 s.

# %%
continuous, sampled = loop.simulate("continuous"), loop.simulate()
t = continuous.t
closed = -0.9 * t * np.exp(-2.0 * t)  # f = 0 at the start, f' = -0.3*3
errors = {run.control: float(np.abs(run.residual["place"] - closed).max()) for run in (continuous, sampled)}
print(errors, "energy error", sampled.energy_error)

# %% [markdown]
# ## A sweep
#
# Overrides are keyword arguments, with `__` for the dot. The residual that remains because of the zero-order hold is
# proportional to the control period.

# %%
left_over = {}
for period in (0.002, 0.005, 0.01, 0.02, 0.05):
    run = servonode.simulate(LAUNCH, controller__period=period, run__duration=20.0)
    left_over[period] = float(np.abs(run.residual["place"][run.t > 10.0]).max())
order = np.polyfit(np.log(list(left_over)), np.log(list(left_over.values())), 1)[0]
print(left_over, "order", order)

# %% [markdown]
# ## Zero dynamics: the motion that the goal leaves free
#
# The goal determines the moving mass only. The sleigh turns to and fro and gathers speed. The faster it is, the less
# it turns: the exponent of $v \sim t^n$ falls towards 1/3.

# %%
run = servonode.simulate(LAUNCH, run__duration=3000.0, plant__step=0.005, every=200)
exponents = {}
for since in (30.0, 300.0, 2000.0):
    late = run.t > since
    exponents[since] = float(np.polyfit(np.log(run.t[late]), np.log(run.state["v"][late]), 1)[0])
print(exponents)

# %%
figure, (path, speed, place) = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
path.plot(sampled.state["x"], sampled.state["y"])
path.set(xlabel="x [m]", ylabel="y [m]", title="the first 60 s, not to scale")
speed.loglog(run.t[1:], run.state["v"][1:], label="v")
speed.loglog(run.t[1:], run.state["v"][-1] * (run.t[1:] / run.t[-1]) ** (1 / 3), "--", label="t^(1/3)")
speed.set(xlabel=f"t [{run.units['t']}]", ylabel=f"v [{run.units['v']}]")
speed.legend()
place.plot(list(left_over), list(left_over.values()), "o-")
place.set(xlabel="period [s]", ylabel="left-over residual [m]")
plt.show()

# %% [markdown]
# ## Everything recorded
#
# `run.columns` has arrays by name and `run.units` their units; with pandas installed, `to_dataframe()` returns a data
# frame.

# %%
print({name: run.units[name] for name in run.columns})
try:
    print(run.to_dataframe().tail(3))
except ImportError as missing:
    print(missing)
