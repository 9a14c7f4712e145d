"""Parameters with which a machine cannot be: each is refused under its name, with its value and its bound."""

import numpy as np
import pytest

from servonode.mechanics.machine import ParameterError
from servonode.plants import load_machine

NOT_POSITIVE = {
    "pendulum_sphero": ("R", "M", "I", "m", "l", "i", "C3", "g", "mu_f"),
    "ball_on_turntable": ("m", "a", "J", "mu_f", "g_n"),
}
REFUSED = [
    *((machine, name, 0.0, "must be greater than 0") for machine, names in NOT_POSITIVE.items() for name in names),
    ("pendulum_sphero", "c_j", -0.01, "must be at least 0"),
    ("pendulum_sphero", "c_r", -0.01, "must be at least 0"),
    ("diff_drive_trailer", "m1", 0.0, "0 kg must be greater than 0 (platform mass without driven wheels)"),
    ("diff_drive_trailer", "b", -1.5, "-1.5 m must be greater than 0 (hinge to trailer axle)"),
    ("diff_drive_trailer", "c_w", -0.25, "-0.25 N m s/rad must be at least 0 (viscous friction at a driven wheel)"),
    ("diff_drive_trailer", "d1", np.nan, "nan is not a finite number"),
    ("diff_drive_trailer", "r", np.inf, "inf is not a finite number"),
    ("diff_drive_trailer", "I1", 0.3, "I1 = 0.3 kg m^2, must be at least d1**2*m1 = 0.36: no inertia is left"),
    ("diff_drive_trailer", "I1", 0.3, "raise I1"),
    ("diff_drive_trailer", "d1", 0.5, "must be at least d1**2*m1"),
    ("snowboarder", "m0", 0.0, "0 kg must be greater than 0"),
    ("snowboarder", "m1", -70.0, "-70 kg must be greater than 0"),
    ("snowboarder", "l1", 0.0, "0 m must be greater than 0"),
    ("snowboarder", "J0", 0.0, "0 kg m^2 must be greater than 0"),
    ("snowboarder", "J1", -1.0, "-1 kg m^2 must be at least 0"),
    ("snowboarder", "n1", 0.0, "must be greater than 0 (height of the body's centre of mass"),
    ("snowboarder", "n1", 1.01, "n1 = 1.01, must be at most 1: "),
    ("snowboarder", "alpha", -0.1, "-0.1 rad must be at least 0"),
    ("snowboarder", "alpha", 1.5708, "alpha = 1.5708 rad, must be less than pi/2 = 1.5707963: "),
    ("snowboarder", "c1", -1.0, "-1 kg/s must be at least 0"),
    ("snowboarder", "c2", -1.0, "-1 kg/m must be at least 0"),
    ("snowboarder", "J0", 3.85, "J0 = 3.85 kg m^2, must be at most l0**2*m0/4 = 3.84: mass would"),
    ("snowboarder", "l0", 0.9, "J0 = 1.28 kg m^2, must be at most l0**2*m0/4 = 1.215: "),
    ("snowboarder", "J1", 56.8, "J1 = 56.8 kg m^2, must be at most l1**2*m1*n1*(1 - n1) = 56.7: "),
    ("snowboarder", "n1", 0.95, "J1 = 18.9 kg m^2, must be at most l1**2*m1*n1*(1 - n1) = 10.77: "),
]


@pytest.mark.parametrize(("machine", "name", "value", "text"), REFUSED)
def test_a_parameter_that_cannot_be_is_refused(machine: str, name: str, value: float, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        load_machine(machine, {name: value}, {})
    assert caught.value.name == name
    assert text in str(caught.value)
