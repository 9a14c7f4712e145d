"""Every field of a model that MuJoCo compiles: whether it is read, and what is said of one that is not.

A field that is in no list is taken for one that changes the motion.
"""

from collections.abc import Collection, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from servonode.wings.robots.file_text import RobotError

READ = (
    "qpos0 qpos_spring body_parentid body_jntnum body_jntadr body_pos body_quat body_ipos body_iquat body_mass "
    "body_inertia jnt_type jnt_qposadr jnt_dofadr jnt_bodyid jnt_limited jnt_actfrclimited jnt_pos jnt_axis "
    "jnt_stiffness jnt_range jnt_actfrcrange dof_frictionloss dof_armature dof_damping site_bodyid site_pos "
    "site_quat eq_type eq_obj1id eq_obj2id eq_objtype eq_active0 eq_data actuator_trntype actuator_gaintype "
    "actuator_biastype actuator_trnid actuator_gainprm actuator_biasprm actuator_damping actuator_armature "
    "actuator_group actuator_forcelimited actuator_forcerange actuator_ctrllimited actuator_ctrlrange "
    "actuator_gear tendon_type tendon_adr tendon_num tendon_limited tendon_actfrclimited tendon_range "
    "tendon_actfrcrange tendon_stiffness tendon_stiffnesspoly tendon_damping tendon_dampingpoly tendon_armature "
    "tendon_frictionloss tendon_lengthspring jnt_stiffnesspoly dof_dampingpoly actuator_dampingpoly "
    "actuator_cranklength wrap_type wrap_objid wrap_prm names opt opt.gravity opt.density opt.viscosity "
    "opt.disableactuator actuator_ctrlspec"
)
MADE = (  # by the compiler of others, or where they stand
    "body_rootid body_weldid body_dofnum body_dofadr body_treeid body_geomnum body_geomadr body_simple body_sameframe "
    "body_subtreemass body_invweight0 body_bvhadr body_bvhnum bvh_depth bvh_child bvh_nodeid bvh_aabb oct_depth "
    "oct_child oct_aabb oct_coeff jnt_actuatorid dof_bodyid dof_jntid dof_parentid dof_treeid dof_Madr dof_simplenum "
    "dof_invweight0 dof_M0 dof_length tree_bodyadr tree_bodynum tree_dofadr tree_dofnum site_sameframe "
    "tendon_actuatorid tendon_treenum tendon_treeid ten_J_rownnz ten_J_rowadr ten_J_colind tendon_length0 "
    "tendon_invweight0 actuator_ctrladr actuator_ctrlnum actuator_outadr actuator_outnum actuator_actadr "
    "actuator_actnum actuator_historyadr actuator_acc0 actuator_length0 actuator_lengthrange plugin_stateadr "
    "plugin_attr plugin_attradr names_map paths B_rownnz B_rowadr B_colind M_rownnz M_rowadr M_colind mapM2M D_rownnz "
    "D_rowadr D_diag D_colind mapM2D mapD2M signature buffer stat"
)
# What moves nothing where contacts are left out, loops hold and limits end a run; "": what it acts with is said itself.
LISTED = {
    "": "body_mocapid body_margin body_contype body_conaffinity site_type site_size site_rgba site_group site_matid "
    "site_dataid jnt_group jnt_plasticadr tendon_plasticadr tendon_group tendon_matid tendon_width tendon_rgba "
    "opt.jacobian opt.solver vis jnt_actgravcomp tree_sleep_policy "
    "actuator_dynprm actuator_actlimited actuator_actrange actuator_actearly",
    "solref and solimp of limits, friction and loops": "jnt_solref jnt_solimp jnt_margin dof_solref dof_solimp "
    "eq_solref eq_solimp tendon_solref_lim tendon_solimp_lim tendon_solref_fri tendon_solimp_fri tendon_margin",
    "sleep": "opt.sleep_tolerance",
    "user data": "body_user jnt_user site_user tendon_user actuator_user",
    "settings of contacts": "opt.impratio opt.cone opt.o_margin opt.o_solref opt.o_solimp opt.o_friction "
    "opt.noslip_tolerance opt.noslip_iterations opt.ccd_tolerance opt.ccd_iterations opt.sdf_initpoints "
    "opt.sdf_iterations",
    "steps and solver": "opt.timestep opt.integrator opt.tolerance opt.ls_tolerance opt.iterations opt.ls_iterations",
    "wind and magnetic field": "opt.wind opt.magnetic",
}
REFUSED = {  # what is a state or a force of its own, with its kind, one of `Ignored`
    "plugin": "body_plugin actuator_plugin plugin plugin_statenum",
    "gravcomp": "body_gravcomp",
    "spring": "jnt_springyield",
    "tendon": "tendon_springyield",
    "activation": "actuator_dyntype actuator_history actuator_delay",
}
FAMILIES = {  # beginnings of fields of what is only seen, touched, measured or called, with what is said of them
    "": "name_ mesh_ skin_ hfield_ tex_ mat_ geom_ sensor_ key_", "cameras": "cam_", "lights": "light_",
    "flexes": "flex efm", "pairs of contacts": "pair_ exclude_", "numbers, texts and tuples": "numeric_ text_ tuple_",
}  # fmt: skip
FLAGS = {"disableflags": 0xFFFFF, "enableflags": 0xFF}  # of <option>, that are read or change no equations
REFERENCE = """<mujoco><worldbody><body name="b"><joint name="j"/><geom size="0.1"/><site name="s"/></body></worldbody>
<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon><equality><joint joint1="j"/></equality>
<actuator><motor joint="j"/></actuator></mujoco>"""  # all else in it has its default
OWNERS = {"body": "body", "jnt": "joint", "eq": "equality", "tendon": "tendon", "actuator": "actuator"}


def unread(mujoco: ModuleType, model: Any, ignore: Collection[str]) -> list[str]:
    """What of a model moves nothing and is not read, in at most one line.

    Raises:
        RobotError: something moves it, and is not read.
    """
    said: dict[str, None] = {}
    for name, row in _changed(mujoco, model):
        word, moves = class_of(name) or ("", True)
        if moves and word not in ignore:
            what = name.removeprefix("opt.")
            owner = OWNERS.get(name.partition("_")[0])
            what += f' of {owner} "{getattr(model, owner)(row).name}"' if owner else ""
            remedy = f'[plant.robot] ignore = ["{word}"] leaves it out' if word else "take it out of the file"
            raise RobotError(f"{what}, which has no counterpart in the equations; {remedy}")
        said |= {word: None} if word and not moves else {}
    return [f"not read, for it changes no equations: {', '.join(said)}"] if said else []


@cache
def class_of(name: str) -> tuple[str, bool] | None:
    """What is said of a field, and whether it moves something; nothing of one that is read, None of an unknown one."""
    if name in f"{READ} {MADE}".split() or name.removeprefix("opt.") in FLAGS or name.startswith(("n", "flg_")):
        return "", False
    for table, moves in ((LISTED, False), (REFUSED, True)):
        for word, names in table.items():
            if name in names.split():
                return word, moves
    return next(((word, False) for word, names in FAMILIES.items() if name.startswith(tuple(names.split()))), None)


def _changed(mujoco: ModuleType, model: Any) -> Iterator[tuple[str, int]]:
    """Each field that is not at its default, with the first row that is not."""
    reference = mujoco.MjModel.from_xml_string(REFERENCE)
    for owner, other, prefix in ((model, reference, ""), (model.opt, reference.opt, "opt.")):
        for name in dir(owner):
            value = getattr(owner, name)
            if name.startswith("_") or callable(value) or class_of(prefix + name) == ("", False):
                continue
            if not prefix and not isinstance(value, np.ndarray):
                continue
            rows, usual = np.atleast_1d(value), np.asarray(getattr(other, name))
            alike = prefix or (len(usual) and usual.shape[1:] == rows.shape[1:])
            default: Any = usual if prefix else usual[-1] if alike else np.nan  # nothing of it has one
            if (apart := np.argwhere(rows != default)).size:
                yield prefix + name, int(apart[0, 0])
    for name, known in FLAGS.items():
        if getattr(model.opt, name) & ~known:
            yield f"opt.{name} of a newer MuJoCo", 0
