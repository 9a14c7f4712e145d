# ruff: noqa: T201
# %% [markdown]
# # A lesson on rolling: nonholonomic control in 90 minutes
#
# For students who know Lagrange's equations, vector fields and linear differential equations. The machine is a mobile
# robot with two driven wheels and a passive trailer. Each part takes about the time beside its title and ends with a
# question. The solutions of the exercises are at the end, as code that is hidden until it is opened, and below them
# the answers to the questions.
#
# | part | minutes |
# |---|---|
# | 1. Rolling without slipping | 15 |
# | 2. Sideways by going round | 15 |
# | 3. Counting degrees of freedom | 10 |
# | 4. A servo-constraint and its relative degree | 15 |
# | 5. What the goal leaves free | 15 |
# | 6. Sampled against continuous | 10 |
# | 7. Exercises | 10 |

# %%
import matplotlib.pyplot as plt
import numpy as np
from sympy import Matrix, cos, integrate, simplify, sin, symbols, tan

import servonode

# %% [markdown]
# ## 1. Rolling without slipping (15 min)
#
# A wheel that stands upright on a plane, seen from above, has its place $(x, y)$ and its heading $\psi$. It rolls
# along its heading and does not slide across it:
#
# $$-\dot x \sin\psi + \dot y \cos\psi = 0 .$$
#
# Every velocity that satisfies this is a combination of two: *drive* $g_1 = (\cos\psi, \sin\psi, 0)$ with speed
# $u_1$, and *turn* $g_2 = (0, 0, 1)$ with yaw rate $u_2$. Three coordinates, two velocities: the wheel cannot move
# sideways.
#
# Does the constraint then keep it on a curve or a surface, as a rail does? If it could be integrated to $F(x, y,
# \psi) = 0$, it would be *holonomic*. Frobenius' theorem answers this: the constraint can be integrated if and only
# if the Lie bracket $[g_1, g_2]$ is a combination of $g_1$ and $g_2$.

# %%
x, y, psi = symbols("x y psi", real=True)
q = Matrix([x, y, psi])
drive, turn = Matrix([cos(psi), sin(psi), 0]), Matrix([0, 0, 1])
bracket = turn.jacobian(q) * drive - drive.jacobian(q) * turn
independent = simplify(Matrix.hstack(drive, turn, bracket).det())
print("bracket", list(bracket), "determinant of the three", independent)

# %% [markdown]
# The bracket is the forbidden direction, straight sideways, and the three vectors are independent everywhere. The
# constraint is **nonholonomic**: at each instant one direction is forbidden, and yet every position and heading can be
# reached.
#
# *Question: which of these is holonomic, a skate on ice, a bead on a wire, a train on rails, a ball that rolls on a
# table?*
#
# ## 2. Sideways by going round (15 min)
#
# The bracket also says how: drive, turn, drive back, turn back, each for a short time $\varepsilon$. To second order
# in $\varepsilon$ the wheel ends at $\varepsilon^2 [g_1, g_2]$. It is how a car is parked between two others.


# %%
def moved(pose: np.ndarray, speed: float, rate: float, time: float) -> np.ndarray:
    """The pose (x, y, psi) of a rolling wheel after a time at constant speed or constant yaw rate."""
    x, y, psi = pose
    return np.array([x + speed * time * np.cos(psi), y + speed * time * np.sin(psi), psi + rate * time])


def manoeuvre(step: float) -> np.ndarray:
    """The five poses (5, 3) of drive, turn, drive back, turn back."""
    poses = [np.zeros(3)]
    for speed, rate in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)):
        poses.append(moved(poses[-1], speed, rate, step))
    return np.array(poses)


steps = np.array([0.05, 0.1, 0.2, 0.4])
ends = np.array([manoeuvre(step)[-1] for step in steps])
sideways_order = np.polyfit(np.log(steps), np.log(np.abs(ends[:, 1])), 1)[0]
print("sideways", ends[:, 1], "order", sideways_order)

# %%
parking, (plane, orders) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
poses = manoeuvre(0.6)
plane.plot(poses[:, 0], poses[:, 1], "-", color="0.7")
wheel = 0.08 * np.array([-1, 1])
for i, ((px, py, angle), offset) in enumerate(
    zip(poses, [(0, 9), (14, -14), (-6, 16), (-14, 8), (14, -12)], strict=True)
):
    plane.plot(px + wheel * np.cos(angle), py + wheel * np.sin(angle), color=f"C{i}", lw=4)
    plane.annotate(f"{i}", (px, py), xytext=offset, textcoords="offset points", ha="center", color=f"C{i}")
plane.set(xlabel="x [m]", ylabel="y [m]", title="0-1 drive, 1-2 turn, 2-3 drive back, 3-4 turn back", aspect="equal")
plane.margins(0.15)
orders.loglog(steps, np.abs(ends[:, 1]), "o-", label="sideways")
orders.loglog(steps, steps**2, "--", label="ε²")
orders.set(xlabel="ε [s]", ylabel="displacement [m]", title="the displacement is of second order")
orders.set_xticks(steps, [f"{step:g}" for step in steps], minor=False)
orders.set_xticks([], minor=True)
orders.legend()
plt.show()

# %% [markdown]
# *Question: the manoeuvre with a tenth of the step goes a hundredth of the way. How much longer does it take to move
# sideways by a given distance?*
#
# ## 3. Counting degrees of freedom (10 min)
#
# The robot with trailer has six coordinates: position and heading of the robot, hitch angle, and two wheel angles. Four
# constraints forbid slipping: the driven axle and the trailer's axle do not slide sideways, each driven wheel rolls.

# %%
loop = servonode.load("trailer_pursuit")
equations = loop.equations()
constraint_matrix = loop.matrices(0.0, {"phi": 0.3}).A
rank = int(np.linalg.matrix_rank(constraint_matrix))
coordinates, velocities = equations.model.coordinates, equations.model.velocities
print("coordinates", coordinates)
print("velocities ", velocities)
print(len(coordinates), "coordinates,", rank, "independent constraints,", len(coordinates) - rank, "velocities")
print(equations.G)

# %% [markdown]
# Two velocities remain, the forward speed $V$ and the yaw rate $\Omega$; the matrix $G$ gives all six rates, $\dot q
# = G v$. Two motors act on two velocities: every acceleration $(\dot V, \dot\Omega)$ can be produced. The
# *configuration* still has more dimensions than that. How many can be reached? Not six: the difference of the two
# rolling constraints can be integrated,
#
# $$2 l \dot\psi = r(\dot\theta_2 - \dot\theta_1) \quad\Rightarrow\quad
# \psi - \frac{r}{2l}(\theta_2 - \theta_1) = \text{constant},$$
#
# so that five remain. Four constraints, one of them holonomic, three nonholonomic.
#
# *Question: how many coordinates, constraints and velocities has a robot with two trailers?*
#
# ## 4. A servo-constraint and its relative degree (15 min)
#
# The floor keeps a rolling constraint by a force that it finds by itself. A **servo-constraint** is a condition that
# motors must keep: the goal, written as an equation. Its left-hand side is the *residual*. Two motors can keep two of
# them:
#
# $$f_1 = V - 0.3, \qquad f_2 = \psi - 0 .$$
#
# The **relative degree** is the number of times that a residual must be differentiated until the torques appear. A
# speed takes one differentiation, an angle two. The law makes each residual decay with the convergence rate
# $\lambda$,
#
# $$\dot f_1 + \lambda f_1 = 0, \qquad \ddot f_2 + 2\lambda\dot f_2 + \lambda^2 f_2 = 0,$$
#
# and computes the torques from the equations of motion. So we know the residuals before we simulate anything: from
# rest with $f_1(0) = -0.3$ and $f_2(0) = 1$
#
# $$f_1 = -0.3\, e^{-\lambda t}, \qquad f_2 = (1 + \lambda t)\, e^{-\lambda t} .$$

# %%
LAMBDA = 2.0
FORWARD = {
    "run": {"duration": 20.0},
    "plant": {"machine": "diff_drive_trailer", "step": 0.001, "initial": {"psi": 1.0}},
    "controller": {
        "period": 0.01,
        "residuals": {"speed": "V - 0.3", "heading": "psi"},
        "gains": {"lambda": LAMBDA},
    },
}
forward = servonode.load(FORWARD)
relative_degrees = forward.servo().relative_degrees
continuous = forward.simulate("continuous")
t = continuous.t
expected = {"speed": -0.3 * np.exp(-LAMBDA * t), "heading": (1 + LAMBDA * t) * np.exp(-LAMBDA * t)}
errors = {name: float(np.abs(continuous.residual[name] - expected[name]).max()) for name in expected}
print("relative degrees", relative_degrees, "largest difference from the formula", errors)

# %%
decay, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, unit in (("speed", "m/s"), ("heading", "rad")):
    axis.plot(t, continuous.residual[name], label=f"{name} [{unit}]")
    axis.plot(t[::25], expected[name][::25], "k.", ms=4)
axis.set(xlim=(0, 5), xlabel="t [s]", ylabel="residual", title="simulated (lines) and by the formula (dots)")
axis.legend()
plt.show()

# %% [markdown]
# *Question: which torques act when both residuals are zero? Read them from `forward.law(0.0, {"V": 0.3, "psi": 0.0})`,
# and explain them.*
#
# ## 5. What the goal leaves free (15 min)
#
# Two residuals do not determine five dimensions of motion. The hitch angle $\varphi$ goes its own way. With $f_1 =
# f_2 = 0$, that is $V$ constant and $\Omega = 0$, the kinematics leave
#
# $$\dot\varphi = -\frac{V}{b} \sin\varphi .$$
#
# This is the **zero dynamics** of the goal. Forward ($V > 0$) the trailer straightens, with the rate $V/b$. Backward
# the sign changes: $\varphi = 0$ is unstable, and the trailer folds against the robot (it *jackknifes*), although
# both residuals stay zero. No gain changes that: the gains act on the residuals, and these are perfect.

# %%
straight = {"initial": {"psi": 0.0, "phi": 0.05, "V": 0.3}}
pulled = forward.simulate(**straight)
pushed = servonode.simulate(
    FORWARD, controller__residuals__speed="V + 0.3", plant__initial={"psi": 0.0, "phi": 0.05, "V": -0.3}
)
early = pushed.t < 8.0
growth = np.polyfit(pushed.t[early], np.log(np.tan(pushed.state["phi"][early] / 2)), 1)[0]
print("growth rate of tan(phi/2) backward", growth, "1/s; by the formula", 0.3 / loop.quantities["b"].default)

# %% [markdown]
# The remedy is another goal. With two motors there are two residuals to choose: instead of the robot's heading,
# control the hitch angle, and let it steer the trailer. The trailer's heading $\vartheta = \psi + \varphi$ obeys
# $\dot\vartheta = -(V/b)\sin\varphi$. Backward with $V = -v$ this is $\dot\vartheta = (v/b) \sin\varphi$, so that
#
# $$\varphi = -2\vartheta \quad\Rightarrow\quad \dot\vartheta = -\frac{v}{b}\sin 2\vartheta,$$
#
# which is stable. The residual is $f_2 = \varphi + 2(\psi + \varphi)$.

# %%
BACKWARD = {
    **FORWARD,
    "plant": {**FORWARD["plant"], "initial": {"psi": 0.4, "phi": 0.05, "V": -0.3}},
    "controller": {**FORWARD["controller"], "residuals": {"speed": "V + 0.3", "hitch": "phi + 2*(psi + phi)"}},
}
backed = servonode.simulate(BACKWARD)
trailer_heading = backed.state["psi"] + backed.state["phi"]
print("trailer's heading", trailer_heading[0], "->", trailer_heading[-1])

# %%
free, (angles, plane) = plt.subplots(2, 1, figsize=(8, 5), height_ratios=(2, 1), layout="constrained")
angles.plot(pulled.t, pulled.state["phi"], label="forward, heading held")
angles.plot(pushed.t, pushed.state["phi"], label="backward, heading held")
angles.plot(backed.t, backed.state["phi"], label="backward, hitch steers")
angles.set(xlabel="t [s]", ylabel="hitch angle φ [rad]")
angles.legend()
for run, color in ((pushed, "C1"), (backed, "C2")):
    outputs = run.outputs
    plane.plot(outputs["X2"], outputs["Y2"], color=color)
    for i in np.linspace(0, len(run.t) - 1, 5).astype(int):
        robot, hitched = (run.state["X"][i], run.state["Y"][i]), (outputs["X2"][i], outputs["Y2"][i])
        plane.plot(*zip(robot, hitched, strict=True), color=color, alpha=0.4)
        plane.plot(*robot, "o", color=color, ms=4)
plane.set(
    xlabel="x [m]", ylabel="y [m]", title="path of the trailer's axle; dots: the robot, every 5 s", aspect="equal"
)
plt.show()

# %% [markdown]
# `pushed.movie(speed=4)` in a cell of its own films the jackknife.
#
# *Question: a driver who backs a trailer turns the wheel "the wrong way" first. Where is this in $\varphi =
# -2\vartheta$?*
#
# ## 6. Sampled against continuous (10 min)
#
# A computer reads the state and sets torques every $T$ seconds; in between the torques are constant (*zero-order
# hold*). The formulas of part 4 then hold approximately. What is the error, and how does it depend on $T$?

# %%
periods = np.array([0.005, 0.01, 0.02, 0.05])
held = {}
for period in periods.tolist():
    run = servonode.simulate(FORWARD, controller__period=period)
    formula = (1 + LAMBDA * run.t) * np.exp(-LAMBDA * run.t)
    held[period] = float(np.abs(run.residual["heading"] - formula).max())
hold_order = np.polyfit(np.log(periods), np.log(list(held.values())), 1)[0]
print(held, "order", hold_order)

# %% [markdown]
# The error is proportional to $T$: a zero-order hold delays the torque by $T/2$ on average. If $\lambda T$ is too
# large, the loop is unstable although the continuous one is stable for every $\lambda$. `check` knows the limit:

# %%
for rate in (20.0, 45.0, 120.0):
    report = servonode.check(FORWARD, controller__gains__lambda=rate)
    print(f"lambda = {rate:5} 1/s, lambda T = {rate * 0.01:4.2f}: {report.verdict}")

# %% [markdown]
# *Question: $\lambda = 120$ 1/s is refused at $T = 0.01$ s. With which period would it pass? Try it with
# `controller__period=`.*
#
# ## 7. Exercises (10 min, or homework)
#
# 1. Show that the constraint $\dot x\sin\psi - \dot y\cos\psi = c$ with a constant slip speed $c$ is not holonomic
#    either. Is $\dot y - x\,\dot x = 0$ holonomic?
# 2. A car has a steered front axle: $\dot x = v\cos\psi$, $\dot y = v\sin\psi$, $\dot\psi = v\tan\delta/L$,
#    $\dot\delta = \omega$. How many brackets are needed to move sideways?
# 3. Choose another factor than 2 in $\varphi = -k\vartheta$. What do you find for $k = 0.5$ and $k = 6$?
# 4. Which goal makes the *trailer* drive along the line $y = 0$ backward?

# %% tags=["hide-cell"] jupyter={"source_hidden": true, "outputs_hidden": true}
# Exercise 1. The constant c only shifts the allowed velocities, g1 and g2 are the same, and so is their bracket.
# y' - x x' = 0 is holonomic: it is the derivative of y - x^2/2.
potential = y - integrate(x, x)
print("constant along the motion:", potential)

# %% tags=["hide-cell"] jupyter={"source_hidden": true, "outputs_hidden": true}
# Exercise 2. Drive and steer; their bracket turns the car; the bracket of that with drive moves it sideways: two.
delta, length = symbols("delta L", real=True)
pose = Matrix([x, y, psi, delta])
roll, steer = Matrix([cos(psi), sin(psi), tan(delta) / length, 0]), Matrix([0, 0, 0, 1])


def lie(f: Matrix, g: Matrix) -> Matrix:
    """The Lie bracket [f, g] of two vector fields of the pose."""
    return simplify(g.jacobian(pose) * f - f.jacobian(pose) * g)


wriggle = lie(steer, roll)
slide = lie(wriggle, roll)
car_rank = Matrix.hstack(roll, steer, wriggle, slide).rank()
print("turning", list(wriggle), "sideways", list(slide), "rank", car_rank)

# %% tags=["hide-cell"] jupyter={"source_hidden": true, "outputs_hidden": true}
# Exercise 3. The trailer's heading decays with the rate v k / b: slowly with 0.5, quickly with 6, where the hitch angle
# and the torques at the start are larger.
gains = {}
for k in (0.5, 2.0, 6.0):
    run = servonode.simulate(BACKWARD, controller__residuals__hitch=f"phi + {k}*(psi + phi)", plant__initial__psi=0.1)
    gains[k] = (abs(float((run.state["psi"] + run.state["phi"])[-1])), float(np.abs(run.columns["U1"]).max()))
print("trailer's heading at the end [rad], largest torque [N m]", gains)

# %% tags=["hide-cell"] jupyter={"source_hidden": true, "outputs_hidden": true}
# Exercise 4. Backward, y2' = -v sin(theta): the wanted heading of the trailer is theta = c y2, with c = 0.5 1/m.
line = servonode.simulate(
    BACKWARD,
    controller__residuals__hitch="phi + 2*(psi + phi - 0.5*Y2)",
    plant__initial={"Y": 1.0, "V": -0.3},
    run__duration=60.0,
)
print("distance of the trailer from the line", line.outputs["Y2"][0], "->", line.outputs["Y2"][-1])

# %% [markdown]
# ## Answers to the questions
#
# * Part 1: the bead and the train are holonomic; the skate and the ball are nonholonomic.
# * Part 2: a distance $D$ takes $D/\varepsilon^2$ manoeuvres of $4\varepsilon$ each, together $4D/\varepsilon$: ten
#   times longer.
# * Part 3: seven coordinates (another hitch angle), five constraints, and still two velocities.
# * Part 4: none. The robot rolls straight on at constant speed, and this model has no friction (`c_w` is 0).
# * Part 5: if the trailer's heading is off to the left, the hitch angle must go to the right and beyond straight; the
#   robot must turn to the left for that, against the direction in which the trailer is to turn.
# * Part 6: `check` passes $\lambda T \le 0.8$ of the limit, which is 1 for relative degree 2: with $T = 0.005$ s, where
#   $\lambda T = 0.6$. It still warns that the wheels would slip: such a law asks for larger forces than the floor
#   gives.
