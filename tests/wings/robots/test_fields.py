"""Each field of MuJoCo's model is in a list; one that moves something and is not read is refused by its name."""

from typing import Any

import pytest

from servonode.wings.robots.fields import FLAGS, LISTED, MADE, READ, REFUSED, class_of, unread
from servonode.wings.robots.file_text import RobotError
from tests.helpers.extras import needs_mujoco

needs_mujoco()
FILE = """<mujoco>{0}<worldbody>
<body name="b"><joint name="j" {1}/><geom size="0.1" {2}/><site name="s"/></body>
</worldbody><tendon><fixed name="t" {3}><joint joint="j" coef="1"/></fixed></tendon>
<actuator><general name="m" joint="j" {4}/></actuator></mujoco>"""


def unread_of(*parts: str, ignore: tuple[str, ...] = ()) -> list[str]:
    import mujoco

    model = mujoco.MjModel.from_xml_string(FILE.format(*parts, *[""] * (5 - len(parts))))
    return unread(mujoco, model, ignore)


def test_each_field_of_mujocos_model_and_options_is_in_a_list_of_what_it_does() -> None:
    from mujoco.introspect.structs import STRUCTS

    fields = {name: [each.name for each in STRUCTS[name].fields] for name in ("mjModel", "mjOption")}
    fields["mjOption"] = [f"opt.{name}" for name in fields["mjOption"]]
    assert len(fields["mjModel"]) > 500
    assert [name for names in fields.values() for name in names if class_of(name) is None] == []
    known = f"{READ} {MADE} {' '.join(LISTED.values())} {' '.join(REFUSED.values())}".split()
    assert sorted(known) == sorted(set(known))
    assert set(known) <= {name for names in fields.values() for name in names}


def test_each_flag_of_mujocos_options_is_known() -> None:
    import mujoco

    for name, flags in (("disableflags", mujoco.mjtDisableBit), ("enableflags", mujoco.mjtEnableBit)):
        bits = [int(value) for word, value in flags.__members__.items() if not word.startswith("mjN")]
        assert sum(bits) == FLAGS[name]


def test_what_changes_no_equations_is_named_in_one_line() -> None:
    assert unread_of() == []
    assert unread_of(
        '<option timestep="0.001" wind="1 0 0"/>', 'range="-1 1" solreflimit="0.01 1"', 'rgba="1 0 0 1"'
    ) == [
        "not read, for it changes no equations: solref and solimp of limits, friction and loops, steps and solver, "
        "wind and magnetic field"
    ]
    assert unread_of("", 'user="1 2"', "", 'user="3"') == ["not read, for it changes no equations: user data"]


@pytest.mark.parametrize(
    ("parts", "kind", "what"),
    [
        (("", 'springyield="0.1" stiffness="3"'), "spring", 'jnt_springyield of joint "j"'),
        (("", "", "", 'stiffness="2" springyield="1"'), "tendon", 'tendon_springyield of tendon "t"'),
        (("", "", "", "", 'dyntype="integrator"'), "activation", 'actuator_dyntype of actuator "m"'),
    ],
)
def test_what_moves_something_is_refused_unless_its_kind_is_ignored(
    parts: tuple[str, ...], kind: str, what: str
) -> None:
    with pytest.raises(RobotError) as caught:
        unread_of(*parts)
    assert what in str(caught.value)
    assert f'ignore = ["{kind}"]' in str(caught.value)
    assert unread_of(*parts, ignore=(kind, "activation")) == []


def test_a_field_of_a_newer_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from servonode.wings.robots import fields

    def unknown(name: str) -> Any:
        return None if name == "jnt_pos" else class_of(name)

    monkeypatch.setattr(fields, "class_of", unknown)
    assert unread_of() == []
    with pytest.raises(RobotError, match=r'jnt_pos of joint "j", which has no counterpart.*take it out of the file'):
        unread_of("", 'pos="0 0 0.1"')
