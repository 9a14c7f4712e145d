"""Parameters from records: known answers, what is not told alone, what cannot be identified."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sympy import sin

import servonode
from servonode.mechanics import Model, coordinate, hinge, input_, jump, link, parameter, tree
from servonode.wings.explore.identification import combinations
from servonode.wings.explore.identification.experiment import IdentificationError
from servonode.wings.explore.identification.identification import ALONE, TOGETHER


def pendulum() -> Model:
    """A pendulum with a motor: (J + m l^2) q'' + c q' + m g l sin q = tau."""
    q = coordinate("q", "angle, 0 hangs", "rad")
    m = parameter("m", "mass of the bob", "kg", default=0.5, above=0)
    l = parameter("l", "length", "m", default=0.4, above=0)  # noqa: E741
    J = parameter("J", "inertia of the motor", "kg m^2", default=0.02, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    c = parameter("c", "friction", "N m s/rad", default=0.05, at_least=0)
    b = parameter("b", "brake of the motor", "N m s/rad", default=0.1, at_least=0)
    tau = input_("tau", "torque of the motor", "N m")
    return Model(
        name="pendulum",
        description="pendulum with a motor",
        coordinates=(q,),
        parameters=(m, l, J, g, c, b),
        kinetic=(J + m * l**2) * q.rate**2 / 2,
        potential=m * g * l * (1 - (1 - sin(q / 2) ** 2 * 2)),
        dissipation=c * q.rate**2 / 2,
        inputs={tau: q.rate},
        safe={tau: -b * q.rate},
    )


def launch(torque: str = "0.6*sin(3*t) + 0.4*sin(7*t)", **true: float) -> Mapping[str, Any]:
    """The pendulum with these true parameters, its law believing the defaults."""
    believed = {name: value for name, value in DEFAULTS.items() if name in true}
    return {
        "run": {"duration": 6.0},
        "plant": {"machine": pendulum, "step": 0.002, "parameters": true, "initial": {"q": 0.3}},
        "controller": {
            "program": "open_loop", "period": 0.01, "parameters": believed, "settings": {"tau": torque},
        },
    }  # fmt: skip


DEFAULTS = {"m": 0.5, "l": 0.4, "J": 0.02, "c": 0.05}


@pytest.fixture(scope="module")
def run() -> servonode.Run:
    return servonode.simulate(launch(J=0.03, c=0.08, m=0.6))


def test_a_record_without_noise_gives_the_parameters_to_rounding(run: servonode.Run) -> None:
    found = servonode.identify(run, ["J", "c", "m"])
    assert [each.before for each in found.estimates.values()] == [0.02, 0.05, 0.5]
    assert found.parameters == pytest.approx({"J": 0.03, "c": 0.08, "m": 0.6}, rel=1e-6)
    assert {each.told for each in found.estimates.values()} == {ALONE}
    assert found.combinations == ()


def test_what_is_not_told_alone_is_named_with_its_combinations(run: servonode.Run) -> None:
    found = servonode.identify(run, "m,l,J,c")
    assert {name: each.told for name, each in found.estimates.items()} == {
        "m": TOGETHER, "l": TOGETHER, "J": TOGETHER, "c": ALONE,
    }  # fmt: skip
    assert found.parameters.keys() == {"c"}
    together = {each.name: each for each in found.combinations}
    assert together.keys() == {"l*m", "J + l**2*m"}
    assert together["l*m"].value == pytest.approx(0.6 * 0.4, rel=1e-6)
    assert together["J + l**2*m"].value == pytest.approx(0.03 + 0.6 * 0.4**2, rel=1e-6)
    assert [together[name].unit for name in ("l*m", "J + l**2*m")] == ["kg m", "kg m^2"]
    assert together["l*m"].before == pytest.approx(0.5 * 0.4)


def test_a_combination_is_printed_with_the_digits_that_its_interval_needs() -> None:
    run = servonode.simulate(launch(J=0.03, m=0.6, l=0.37))
    found = servonode.identify(run, "J,m,g", law=False)
    together = {each.name: each for each in found.combinations}
    assert together.keys() == {"g*m", "J + 0.1369*m"}  # 0.1369 = 0.37**2
    for name, true in {"g*m": 0.6 * 9.81, "J + 0.1369*m": 0.03 + 0.1369 * 0.6}.items():
        assert abs(together[name].value - true) < together[name].error < 1e-7 * true


def test_a_fit_that_did_not_settle_says_so(run: servonode.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert servonode.identify(run, "J,c", law=False).notes == ()
    monkeypatch.setattr("servonode.wings.explore.identification.fit.STEPS", 1)
    monkeypatch.setattr("servonode.wings.explore.identification.fit.TURNS", 1)
    (note,) = servonode.identify(run, "J,c", law=False).notes
    assert note.startswith("the fit did not settle")


def test_without_an_input_only_ratios_are_told() -> None:
    run = servonode.simulate(launch(torque="0", J=0.03, c=0.08))
    found = servonode.identify(run, "J,m,c")
    assert {each.told for each in found.estimates.values()} == {TOGETHER}
    m, J, c = (found.estimates[name].value for name in ("m", "J", "c"))
    assert c / m == pytest.approx(0.08 / 0.5, rel=1e-5)
    assert (J + m * 0.4**2) / m == pytest.approx((0.03 + 0.5 * 0.4**2) / 0.5, rel=1e-5)
    assert len(found.combinations) == 2


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("mm", ("'mm' is not a parameter of the machine pendulum", "did you mean m?")),
        ("J,J", ("given twice",)),
        ("", ("not a parameter",)),
        ("J,b", ("b: not in the equations of motion or jumps of pendulum", "leave it out")),
    ],
)
def test_parameters_that_cannot_be_identified_are_refused(
    run: servonode.Run, names: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(IdentificationError) as caught:
        servonode.identify(run, names)
    assert [each for each in parts if each not in str(caught.value)] == []


def test_a_machine_at_rest_tells_nothing() -> None:
    rest = dict(launch(torque="0"))
    rest["plant"] = {**rest["plant"], "initial": {"q": 0.0}}
    with pytest.raises(IdentificationError, match="the machine rests"):
        servonode.identify(servonode.simulate(rest), "J,c")


def test_correlation_and_json_go_with_the_estimates(run: servonode.Run) -> None:
    found = servonode.identify(run, "J,c", law=False)
    assert np.diag(found.correlation) == pytest.approx([1.0, 1.0])
    assert abs(found.correlation[0, 1]) < 1
    told = found.as_dict()
    assert told["parameters"]["J"]["unit"] == "kg m^2"
    assert told["measurements"] == 2 * len(run.t)
    assert "Identification of pendulum" in repr(found)


def arm() -> Model:
    """Two links, whose equations have definitions."""
    a, b = (coordinate(name, f"angle {name}", "rad") for name in "ab")
    m2 = parameter("m2", "mass of the forearm", "kg", default=2.0, above=0)
    u, v = input_("u", "torque of a", "N m"), input_("v", "torque of b", "N m")
    upper = link("up", joints=[hinge(a, (0, 1, 0))], mass=3.0, centre=(0, 0, -0.2), inertia=np.eye(3).tolist())
    lower = link("lo", "up", position=(0, 0, -0.4), joints=[hinge(b, (0, 1, 0))], mass=m2, centre=(0, 0, -0.2))
    links = tree([upper, lower], gravity=(0, 0, -9.81))
    return Model("arm2", "arm", tree=links, inputs={u: a.rate, v: b.rate}, parameters=(m2,))


def ball() -> Model:
    z = coordinate("z", "height", "m")
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    m = parameter("m", "mass", "kg", default=1.0, above=0)
    e = parameter("e", "restitution", "1", default=0.8, at_least=0)
    s = parameter("s", "of the safe action", "1", default=0.8, at_least=0)
    bounce = jump(z <= 0, {z: -z, z.rate: -e * z.rate}, "floor")
    return Model(
        "ball", "ball", coordinates=(z,), parameters=(g, m, e, s), kinetic=m * z.rate**2 / 2, potential=m * g * z,
        jumps=(bounce,),
    )  # fmt: skip


@pytest.mark.parametrize("longest", [0, 1000])
def test_machines_with_definitions_are_identified(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out, and as they are where that would be too long."""
    monkeypatch.setattr(combinations, "LONGEST", longest)
    control = {"program": "open_loop", "period": 0.01, "parameters": {"m2": 1.8}, "settings": {"u": "sin(3*t)"}}
    found = servonode.identify(
        servonode.simulate({"run": {"duration": 1.0}, "plant": {"machine": arm}, "controller": control}), "m2"
    )
    assert found.parameters == pytest.approx({"m2": 2.0}, rel=1e-6)
    assert found.estimates["m2"].before == 1.8


def test_a_parameter_of_a_jump_alone_is_identified_and_one_of_nothing_is_named() -> None:
    plant = {"machine": ball, "step": 0.001, "initial": {"z": 1.0}, "parameters": {"e": 0.7}}
    run = servonode.simulate({"run": {"duration": 0.8}, "plant": plant})
    found = servonode.identify(run, "e", law=False).estimates["e"]
    assert (found.value, found.told) == (pytest.approx(0.7, rel=1e-6), ALONE)
    with pytest.raises(IdentificationError, match=r"^s: not in the equations of motion or jumps of ball, so no record"):
        servonode.identify(run, "e,s")
