"""The snowboarder's programs against the same laws written by hand, their options, and what they refuse."""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw, StatedProgram, find_program, load_law
from servonode.mechanics import ModelError
from servonode.mechanics.stabilize import Gains
from tests.helpers import snowboarder_sheet
from tests.helpers.packaged import load_machine, machine_key, model_factory

SETTINGS: dict[str, dict[str, float]] = {
    "slalom": {"A": 1.2, "k": 0.25, "delta": 0.2, "k_theta": 0.3, "theta_c": 0.1, "sigma_c": -0.15, "c_y": 0.4},
    "carve": {"A": 1.2, "k": 0.25, "delta": 0.2, "k_theta": 0.3, "theta_c": 0.1, "c_y": 0.4, "V0": 6.0, "x_ref": 1.0},
    "curve": {"kappa0": 0.02, "kappa1": 0.1, "Lambda": 35.0, "chi0": 0.7, "c_n": 0.4, "V_d": 6.0, "Omega_d": 1.1,
              "theta_c": 0.1, "s0": 0.0, "n0": 0.0},
    "literal": {"psi_c": 1.1, "A": 1.2, "k": 0.25, "delta": 0.15},
}  # fmt: skip
ON_A_LINE = {"y_c": 0.3, "chi0": 0.4, "delta": 0.2, "k_theta": 0.3, "theta_c": 0.1, "c_y": 0.4}
DRAG = {"c1": 3.0, "c2": 0.4}
CASES = [(name, "sine") for name in SETTINGS] + [("slalom", "line"), ("carve", "line")]


@pytest.fixture(scope="module")
def hand() -> ModuleType:
    """The programs by hand."""
    return snowboarder_sheet


def settings_of(name: str, path: str) -> dict[str, float]:
    if path == "sine":
        return SETTINGS[name]
    return ON_A_LINE | ({"sigma_c": -0.15} if name == "slalom" else {"V0": 6.0, "x_ref": 1.0})


@cache
def law_of(name: str, path: str, actuation: str, gravity: str = "full", input_set: str = "relative") -> ServoLaw:
    options = {"actuation": actuation} | ({"path": path} if name in ("slalom", "carve") else {})
    settings = {"gravity": gravity, "input_set": input_set}
    source = StatedProgram(find_program(f"servonode.controllers.snowboarder_{name}:program", Path(), "snowboarder"))

    def build() -> Any:
        return model_factory("snowboarder")(**settings)

    machine = load_machine("snowboarder", DRAG, settings)
    key = machine_key("snowboarder", settings)
    return load_law(source, machine, key, build, options, settings_of(name, path))


def random_state(rng: np.random.Generator) -> Any:
    """Heading down the slope, body leaning forward up to 50 degrees, so that every program is regular."""
    low = np.array([2, -3, -1.1, 0.2, -0.6, 2, -2, -2, -2])
    return np.append(rng.uniform(low, [30, 3, 1.1, 0.9, 0.6, 12, 2, 2, 2]), 0.0)


def rows_of(hand: Any, rider: Any, name: str, path: str, x: Any, at: Any) -> Any:
    s = settings_of(name, path)
    if name == "curve":
        return hand.curve(rider, x, s, at)
    return hand.literal(rider, x, s) if name == "literal" else getattr(hand, name)(rider, x, path, s)


def random_gains(rng: np.random.Generator) -> Gains:
    """Coupled matrices that are stable: rates 5 1/s with couplings small beside them."""
    K0 = 25 * np.eye(3) + rng.uniform(-3, 3, (3, 3))
    return Gains.from_matrices(K0, 10 * np.eye(3) + rng.uniform(-1, 1, (3, 3)), (2, 2, 2))


def laws() -> list[Any]:
    """Gravity, input set, program, path and actuation of laws; each takes seconds to compile, so few are fast.

    Of the machine's other forces one law with a path and one with states of its own are enough.
    """
    usual = [("full", "relative", *case, actuation) for case in CASES for actuation in ("physical", "ideal")]
    others = [("paper", "total"), ("full", "total"), ("paper", "relative")]
    more = [(*forces, name, "sine", "physical") for forces in others for name in ("slalom", "curve")]
    more += [("full", "total", "slalom", "sine", "ideal"), ("paper", "total", "literal", "sine", "physical")]
    fast = {("full", "relative", name, "sine", "physical") for name in SETTINGS}
    return [pytest.param(*each, marks=() if each in fast else pytest.mark.slow) for each in (*usual, *more)]


@pytest.mark.parametrize(("gravity", "input_set", "name", "path", "actuation"), laws())
def test_inputs_are_those_of_the_law_by_hand(
    hand: Any, rng: np.random.Generator, gravity: str, input_set: str, name: str, path: str, actuation: str
) -> None:
    law = law_of(name, path, actuation, gravity, input_set)
    rider = hand.Rider(law.machine.parameters, gravity)
    for _ in range(20):
        x, at = random_state(rng), (rng.uniform(0, 50), rng.uniform(-1, 1))
        gains = random_gains(rng)
        law.use(gains)
        answer = law.evaluate(0.0, x, np.array(at) if name == "curve" else np.zeros(0))
        assert answer.status == 0
        rows = rows_of(hand, rider, name, path, x, at)
        expected = getattr(rider, actuation)(x, rows.G, rows.wanted(gains.K0, gains.K1))[1]
        expected = hand.total(x, expected) if input_set == "total" else expected
        assert_allclose(answer.residuals, rows.f, rtol=0, atol=1e-12)
        assert_allclose(answer.inputs, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("x0", "printed"),
    [
        (5.0, "-0.145348495724, -0.0408877458220, 0.00315726476894"),
        (20.0, "0.239098286495, 0.0592670846509, -0.00705590278222"),
    ],
)
def test_the_carving_lean_has_the_printed_derivatives(hand: Any, agree_in_print: Any, x0: float, printed: str) -> None:
    settings = {"A": 1.5, "k": 0.2, "delta": 0.0, "V0": 5.0, "x_ref": 0.0}
    law = law_of("carve", "sine", "physical").with_parameters(settings)
    x, v = law.machine.state({"x0": x0, "v": 1.0}), law.machine.description.velocities.index("v")
    terms = law.terms(0.0, x, np.zeros(0))
    # straight down at 1 m/s, where x0 is the time
    agree_in_print([-terms["f"][1], -terms["J"][1, v], -terms["delta"][1]], printed)
    jet = hand.carving_lean(hand.Rider(law.machine.parameters), x0, "sine", law.parameters)
    agree_in_print([jet.a, jet.b, jet.c], printed)


def stated(name: str, path: str, **settings: str) -> tuple[Any, Any]:
    """The Model and the Program of it."""
    machine = model_factory("snowboarder")(**settings)
    module = importlib.import_module(f"servonode.controllers.snowboarder_{name}")
    return machine, module.program(machine, **({"path": path} if name in ("slalom", "carve") else {}))


def value(expression: Any, numbers: dict[str, float]) -> float:
    return float(expression.xreplace({s: numbers[s.name] for s in expression.free_symbols}))


def numbers_at(hand: Any, law: ServoLaw, x: Any, at: tuple[float, float]) -> dict[str, float]:
    states = dict(zip(law.machine.description.state_names, x, strict=False))
    return hand.DEFAULTS | states | law.machine.parameters | law.parameters | {"s": at[0], "n": at[1]}


@pytest.mark.parametrize(("name", "path"), CASES)
def test_the_driven_mass_is_the_momentum_of_the_motion_left_free(
    hand: Any, rng: np.random.Generator, name: str, path: str
) -> None:
    law, (_, program) = law_of(name, path, "physical"), stated(name, path)
    rider = hand.Rider(law.machine.parameters)
    for _ in range(5):
        x, at = random_state(rng), (rng.uniform(0, 50), rng.uniform(-1, 1))
        z = np.linalg.svd(rows_of(hand, rider, name, path, x, at).G)[2][3]
        m_ph = rider.mass(x)[0] @ z / z[0]
        margin = value(program.guards[0].margin, numbers_at(hand, law, x, at))
        assert margin == pytest.approx(m_ph - 0.1 * rider.M, rel=1e-9)
    if name == "literal":  # sigma = 0 exactly, where the pitch does not move the azimuth: no pivot vanishes
        x = law.machine.state({"theta": 0.3, "v": 3.0})
        assert value(program.guards[0].margin, numbers_at(hand, law, x, (0, 0))) > 0


def test_the_default_slalom_is_far_from_losing_its_drive(hand: Any) -> None:
    settings = hand.DEFAULTS
    law = law_of("slalom", "sine", "physical")
    rider = hand.Rider(law.machine.parameters)
    masses = []
    for x0 in np.linspace(0, 10 * np.pi, 400):
        f, x = hand.path(x0, "sine", settings), np.zeros(10)
        x[[0, 2, 3]] = x0, np.arctan(f[1]), hand.pitch(x0, settings, 0.2).a
        G = hand.slalom(rider, x, "sine", settings).G
        z = np.linalg.svd(G)[2][3]
        masses.append(rider.mass(x)[0] @ z / z[0])
    assert (min(masses), max(masses)) == pytest.approx((74.7, 77.3), abs=0.05)


def status_at(name: str, path: str = "sine", at: tuple[float, float] = (0.0, 0.0), **state: float) -> str:
    """What the law says at a state; empty where it is content."""
    law = law_of(name, path, "physical")
    x = law.machine.state({"v": 5.0, "theta": 0.3, **state})
    law.stabilise(dict.fromkeys(("heading", "lean", "pitch"), 5.0))
    answer = law.evaluate(0.0, x, np.array(at) if name == "curve" else np.zeros(0))
    return law.explain(answer) if answer.status else ""


@pytest.mark.parametrize(
    ("name", "good", "bad", "text"),
    [
        ("slalom", {"phi0": 1.399}, {"phi0": 1.401}, "heading has left"),
        ("slalom", {"phi0": -1.399}, {"phi0": -1.401}, "heading has left"),
        ("carve", {"phi0": 1.399}, {"phi0": 1.401}, "heading has left"),
        ("literal", {"phi0": 1.399}, {"phi0": 1.401}, "heading has left"),
        # V0 = 6 at x_ref = 1: no speed is left 12.279 m above
        ("carve", {"x0": 1 - 12.27}, {"x0": 1 - 12.29}, "no speed is left"),
        ("literal", {"theta": 0.01}, {"theta": -0.01}, "does not lean forward"),
        ("curve", {"at": (0.0, 8.3)}, {"at": (0.0, 8.4)}, "centre of curvature"),  # kappa = 0.12
    ],
)
def test_guards_stop_the_law_where_its_formulas_end(name: str, good: Any, bad: Any, text: str) -> None:
    assert status_at(name, **good) == ""
    assert text in status_at(name, **bad)


def test_the_law_stops_where_gravity_hardly_drives_the_motion() -> None:
    law = law_of("slalom", "line", "physical")
    # straight down, theta = 0: m_ph = M + mu Theta', Theta' = -delta at the steepest; 0.1 M is reached at 1.0857
    for delta, content in ((1.085, True), (1.087, False)):
        steep = law.with_parameters({"delta": delta, "k_theta": 1.0, "theta_c": 0.0, "c_y": 0.0, "sigma_c": 0.0})
        answer = steep.evaluate(0.0, steep.machine.state({"x0": 1.5 * np.pi, "v": 5.0}), np.zeros(0))
        assert (answer.status == 0) is content
        assert content or "m_ph < 0.1 M" in steep.explain(answer)


def test_absolute_forces_and_carving_without_weight_on_the_body_are_refused() -> None:
    for name in SETTINGS:
        with pytest.raises(ModelError, match='input_set = "absolute"'):
            stated(name, "sine", input_set="absolute")
    with pytest.raises(ModelError, match='set gravity = "full"'):
        stated("carve", "sine", gravity="paper")


def test_the_cache_sees_a_change_of_what_the_programs_share(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = find_program("slalom", Path(), "snowboarder")
    before, read = definition.digest(), Path.read_bytes

    def changed(file: Path) -> bytes:
        return read(file) + (
            b"# changed" if file.name == "snowboarder.py" and file.parent.name == "controllers" else b""
        )

    monkeypatch.setattr(Path, "read_bytes", changed)
    assert definition.digest() != before
