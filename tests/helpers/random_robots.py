"""Random robots' files: MJCF with joints of all kinds, losses, loops and motors; URDF with all its joints."""

import numpy as np

Random = np.random.Generator


def numbers(rng: Random, size: int, scale: float = 1.0) -> str:
    return " ".join(f"{each:.4f}" for each in scale * rng.uniform(-1, 1, size))


def axis(rng: Random) -> str:
    return numbers(rng, 3) if rng.random() < 0.5 else " ".join(map(str, np.eye(3, dtype=int)[rng.integers(3)]))


def either(rng: Random, share: float, text: str) -> str:
    return text if rng.random() < share else ""


def mjcf(seed: int) -> str:
    """A random MJCF file: two to four bodies."""
    rng = np.random.default_rng(seed)
    degree, several = bool(rng.integers(2)), bool(rng.integers(2))
    turn = 30.0 if degree else 0.5
    singles, bodies, sites = list[str](), list[str](), list[str]()

    def joints(name: str, root: bool) -> str:
        kind = rng.choice(["hinge", "slide", "ball", "free"], p=[0.5, 0.2, 0.2, 0.1])
        if kind == "free" and root:
            return f'<freejoint name="{name}_free"/>'
        losses = either(rng, 0.4, f'damping="{rng.uniform(0, 2):.3f}" ') + either(rng, 0.3, 'armature="0.02" ')
        losses += either(rng, 0.2, 'frictionloss="0.1" ')
        if kind in ("ball", "free"):
            return f'<joint name="{name}_ball" type="ball" {losses} pos="{numbers(rng, 3, 0.1)}"/>'
        found = ""
        for i in range(1 + several * rng.integers(2)):
            size = turn if kind == "hinge" else 0.1
            singles.append(f"{name}_{i}")
            spring = either(
                rng, 0.3, f'stiffness="{rng.uniform(0, 9):.2f}" springref="{rng.uniform(-size, size):.3f}" '
            )
            spring = spring or either(rng, 0.2, 'springdamper="0.3 0.7" ')
            more = spring + either(rng, 0.3, f'ref="{rng.uniform(-size, size):.3f}" ') + either(rng, 0.3, 'class="c" ')
            more += either(rng, 0.3, f'range="{-size} {2 * size}" limited="true" ')
            place = "" if kind == "slide" else f'pos="{numbers(rng, 3, 0.1)}" '
            found += f'<joint name="{name}_{i}" type="{kind}" axis="{axis(rng)}" {place}{losses}{more}/>'
            kind = rng.choice(["hinge", "slide"])
        return found

    def body(number: int, root: bool) -> str:
        name = f"b{number}"
        place = f'pos="{numbers(rng, 3, 0.4)}" ' + either(rng, 0.6, f'euler="{numbers(rng, 3, 2 * turn)}"')
        mass = f'<inertial pos="{numbers(rng, 3, 0.2)}" mass="{rng.uniform(0.3, 3):.3f}" diaginertia="0.05 0.06 0.07"/>'
        shape = '<geom type="box" size="0.1 0.05 0.2" pos="0.1 0 0"/>' + either(
            rng, 0.3, '<geom size="0.05" mass="0.2"/>'
        )
        fixed = f'<body name="{name}_f" pos="0 0.1 0" euler="{numbers(rng, 3, turn)}">{shape}</body>'
        inside = either(rng, 0.3, fixed) + f'<site name="s{number}" pos="{numbers(rng, 3, 0.2)}" euler="0 {turn} 0"/>'
        bodies.append(name)
        sites.append(f"s{number}")
        start = f'<body name="{name}" {place}>{joints(name, root)}{mass if rng.random() < 0.6 else shape}{inside}'
        nested = number < 2 + seed % 3 and rng.random() < 0.7
        return f"{start}{body(number + 1, False) if nested else ''}</body>"

    world = body(0, True) + (body(10, True) if rng.random() < 0.5 else "")
    lossy = 'damping="0.2" armature="0.01"'
    motors = "".join(
        f'<motor name="m_{each}" joint="{each}" gear="{rng.uniform(0.5, 3):.2f}" {either(rng, 0.3, lossy)}/>'
        for each in singles[:2]
    )
    motors += either(rng, 0.3, f'<motor name="thrust" site="{sites[-1]}" gear="{numbers(rng, 6)}"/>')
    summed = "".join(f'<joint joint="{each}" coef="{rng.uniform(0.5, 2):.2f}"/>' for each in singles[:2])
    tendons = f'<tendon><fixed name="t" stiffness="2" damping="0.3">{summed}</fixed></tendon>' if singles else ""
    between = f'body1="{bodies[0]}" body2="{bodies[-1]}" anchor="{numbers(rng, 3, 0.1)}"'
    ends = (between, f'site1="s0" site2="{sites[-1]}"')
    led = f'<joint joint1="{singles[0]}" joint2="{singles[-1]}" polycoef="0 0.5 0.1 0 0"/>' if len(singles) > 1 else ""
    loops = [either(rng, 0.2, led), either(rng, 0.1, f"<connect {ends[rng.integers(2)]}/>") if len(bodies) > 1 else ""]
    flags = either(
        rng, 0.2, f'<flag {rng.choice(["gravity", "spring", "damper", "equality", "actuation"])}="disable"/>'
    )
    compiler = f'angle="{"degree" if degree else "radian"}" eulerseq="{rng.choice(["xyz", "ZYX", "zxz"])}" '
    compiler += either(rng, 0.2, 'inertiafromgeom="true" ') + either(rng, 0.2, 'settotalmass="7" ')
    compiler += either(rng, 0.2, 'boundmass="0.5" boundinertia="0.06" ') + either(rng, 0.2, 'balanceinertia="true" ')
    compiler += either(rng, 0.2, 'autolimits="false" ') + either(rng, 0.2, 'fusestatic="true" ')
    return (
        f'<mujoco><compiler {compiler}/><option gravity="{numbers(rng, 3, 9)}">{flags}</option><default>'
        f'<default class="c"><joint damping="0.3" armature="0.01"/></default></default><worldbody>{world}</worldbody>'
        f"{either(rng, 0.3, tendons)}<equality>{''.join(loops)}</equality><actuator>{motors}</actuator></mujoco>"
    )


def urdf(seed: int) -> str:
    """A random URDF file: links at random parents, joints of all kinds, one that follows another."""
    rng, n = np.random.default_rng(seed), 2 + seed % 4
    text, moved = '<link name="l0"/>' if seed % 2 else "", list[str]()
    for i in range(n + 1):
        if i or not seed % 2:
            turned = either(rng, 0.7, f'rpy="{numbers(rng, 3)}"')
            text += (
                f'<link name="l{i}"><inertial><origin xyz="{numbers(rng, 3, 0.2)}" {turned}/>'
                f'<mass value="{rng.uniform(0.5, 3):.3f}"/>'
                '<inertia ixx="0.05" iyy="0.06" izz="0.07" ixy="0.004" ixz="-0.003" iyz="0.002"/></inertial></link>'
            )
        if not i:
            continue
        kind = "revolute" if i == n else rng.choice(["revolute", "continuous", "prismatic", "fixed"])
        follows = either(rng, 0.2, f'<mimic joint="{moved[0]}" multiplier="-0.5" offset="0.1"/>') if moved else ""
        text += (
            f'<joint name="j{i}" type="{kind}"><parent link="l{rng.integers(i)}"/><child link="l{i}"/>'
            f'<origin xyz="{numbers(rng, 3, 0.4)}" rpy="{numbers(rng, 3, 3)}"/><axis xyz="{axis(rng)}"/>'
            f'<limit lower="-1" upper="{rng.uniform(0.5, 2):.2f}" effort="{rng.integers(1, 20)}" velocity="3"/>'
            f'<dynamics damping="{rng.uniform(0, 1):.2f}"/>{"" if kind == "fixed" else follows}</joint>'
        )
        moved += [f"j{i}"] if kind != "fixed" and not follows else []
    return f'<robot name="random">{text}</robot>'
