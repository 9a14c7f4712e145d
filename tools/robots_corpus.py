"""Whether servonode reads robots' files as MuJoCo does: the table of docs/systems/robots.md.

    python tools/robots_corpus.py FOLDER ...      reads all of them anew
    python tools/robots_corpus.py --table         the page from the results that are there

A folder is a package: a copy of a repository, or the name of an installed Python package with robots in it. Each URDF
and MJCF file with a joint that moves is read in a process of its own, at a lower priority and for a limited time; equal
files once. Results go to build/robots.json, so that a run that was stopped goes on where it was; `--only PART` reads
those files anew whose path has PART. Files that only others include, or that are scenes about a robot, are left to
`--without PART`.
"""

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "build/robots.json", ROOT / "docs/systems/robots.md"
LIMIT = 60.0  # s of the processor, for one file
TRACEBACK = "TRACEBACK"
POSES = 5
RIGHT = 1e-9
WITHOUT = (  # scenes, demonstrations of the engine, and variants of one robot
    r"/scene[^/]*\.xml",
    r"mujoco/model/(flex|replicate|plugin|sleep|cards|balloons|cube|mug|tactile|surfacevel)/",
    r"mujoco/(doc|mjx|sample|src|wasm|simulate|dist)/",
    r"g1_29dof_mode_1[1-6]",
    r"rby1_description/mjcf/.*/(LINK|geoms|assets|wuji_hand)",
    r"mujoco_playground/",
    r"humanoid-bench/(tdmpc2|dreamerv3)",
    r"humanoid-bench/.*kitchen",
    r"mujoco_mpc/mjpc/(test|tasks/common_assets|tasks/humanoid/interact/scenes)",
    r"^robot-assets/",
    r"rby1_",
    r"urdf_files/ros-industrial/xacro_generated",
    r"(testing|test_assets|multiagent_mujoco|/test/)",
    r"trifinger",
    r"pybullet_data/(?!.*(quadruped|humanoid|laikago|mini_cheetah|aliengo|a1|kuka|franka|cassie))",
    r"humanoid-bench/",
    r"envs/assets/hand/manipulate_(?!block\.xml)",
    r"adroit_hand/adroit_(?!hammer)",
    r"urdf_files/random/robot-assets/",
)
MOST_LETTERS, MOST_KINDS, MOST_SECONDS = 90, 20, 20.0
PREFACE = """\
# Public robots, read

Files of robots that anybody can get, each read as a [machine](../how_to/robots.md) and compared with MuJoCo. `make
robots FOLDERS="..."` makes this page from folders with copies of the repositories; the first part of each path
names the repository."""
COLUMNS = """\
*right*: MuJoCo compiles the file by itself, and so does servonode; *without*: kinds in `[plant.robot] ignore` that
the refusal names. *read*: MuJoCo refuses the file alone. *n*: velocities. *masses*: the largest difference of mass
matrices at 5 random poses from MuJoCo's, relative to the largest entry. *accelerations*: at 20 random states and
inputs, relative to the largest, where the machine was derived. *s*: seconds of a processor for deriving and
compiling. *before*: of 2026-11-30; release 0.1.0 read no robots' files. Meshes that are not there are left out on
both sides, and links of a URDF have no mass but that of `<inertial>`."""
WARM = ("mujoco", "sympy", "scipy.spatial.transform", "servonode.simulation", "servonode.wings.robots.definition")
WARM = (*WARM, *(f"servonode.wings.robots.{word}" for word in ("read", "judge", "model", "mesh_files")))
Result = dict[str, Any]


# which files


def folders(names: list[str]) -> Iterator[tuple[str, Path]]:
    """The packages by name: folders, or installed packages of Python."""
    for name in names:
        folder = Path(name)
        spec = None if folder.is_dir() else importlib.util.find_spec(name)
        if spec is None and not folder.is_dir():
            sys.exit(f"{name}: no folder and no installed package")
        place = folder if spec is None else Path(next(iter(spec.submodule_search_locations or [])))
        yield (folder.resolve().name if spec is None else name), place.resolve()


def robots(folder: Path, seen: set[str]) -> Iterator[Path]:
    """The URDF and MJCF files of a folder with a joint that moves, each text once."""
    for file in sorted(folder.rglob("*")):
        if file.suffix not in (".urdf", ".xml") or not file.is_file() or file.stat().st_size > 20_000_000:
            continue
        text = re.sub(r"<!--.*?-->", "", file.read_text(errors="replace"), flags=re.DOTALL)
        root = re.search(r"<(robot|mujoco)\b", text[:3000])
        if root is None:
            continue
        moves = r'<joint\b[^>]*type="(?!fixed)' if root[1] == "robot" else r"<worldbody.*<(free)?joint\b"
        digest = hashlib.sha256(text.encode()).hexdigest()
        if re.search(moves, text, re.DOTALL) and digest not in seen:
            seen.add(digest)
            yield file


# one file, in a process of its own


def one(file: Path, derive: bool) -> Result:
    """What MuJoCo says of a file by itself, and what servonode does."""
    return _alone(file) | _own(file, derive)


def _alone(file: Path) -> Result:
    """Whether MuJoCo compiles a file by itself, without meshes that are not there and what is only seen."""
    import mujoco

    from servonode.wings.robots.mesh_files import find_meshes

    mujoco.set_mju_user_warning(lambda _: None)

    def compiled(stated: bool) -> Any:
        spec = mujoco.MjSpec.from_file(str(file))
        find_meshes(spec, file)
        for each in (*spec.geoms, *spec.sites):
            each.material = ""
        for word in ("keys", "skins", "materials", "textures"):
            for each in list(getattr(spec, word)):
                spec.delete(each)
        if stated:
            spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
        return spec.compile()

    try:
        model = compiled(stated=False)
    except ValueError as error:
        return {"alone": _in_one_line(error)}
    found = {"alone": "", "velocities": model.nv, "loops": model.neq, "motors": model.nu}
    if file.suffix == ".urdf":
        try:
            compiled(stated=True)
        except ValueError:
            found["alone"] = "a link that moves has no <inertial>; MuJoCo makes up a mass from its shapes"
    return found


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).replace("Error: ", "").replace("XML ", "").split())


def _own(file: Path, derive: bool) -> Result:
    """How servonode takes a file: with which kinds in `ignore`, how right it is, and how long that took."""
    from servonode.errors import ServonodeError

    ignore, found = list[str](), Result()
    while True:
        try:
            return found | (_derived if derive else _read)(file, ignore) | {"ignore": ignore}
        except ServonodeError as refused:
            text = str(refused)
            found.setdefault("first", text)
            kind = re.search(r'ignore = \["(\w+)"\]', text)
            if not kind or kind[1] in ignore:
                return found | {"refused": text, "ignore": ignore}
            ignore.append(kind[1])
        except Exception as error:  # noqa: BLE001
            return found | {"refused": f"{TRACEBACK} {type(error).__name__}: {error}", "ignore": ignore}


def _read(file: Path, ignore: list[str]) -> Result:
    """The largest difference of mass matrices from MuJoCo's at random poses, relative to their largest entries."""
    import mujoco
    import numpy as np

    from servonode.wings.robots.judge import alone
    from servonode.wings.robots.read import mass_matrix, read

    robot = read(file, ignore=ignore)
    n = sum({"ball": 3, "free": 6}.get(each.kind, 1) for each in robot.joints)
    try:
        model = alone(mujoco, robot, {"ignore": ignore})
    except ValueError:
        return {"n": n, "masses": None}
    data, worst = mujoco.MjData(model), 0.0
    for pose in range(POSES):
        rng, order = np.random.default_rng(pose), list[int]()  # as `mass_matrix` draws
        for joint in robot.joints:
            stated = model.joint(joint.name)
            place, dof = int(stated.qposadr[0]), int(stated.dofadr[0])
            if joint.kind in ("hinge", "slide"):
                data.qpos[place] = rng.uniform(-1, 1)
            else:
                turn = rng.normal(size=4)
                place += 3 * (joint.kind == "free")
                data.qpos[place : place + 4] = [turn[3], *turn[:3]]
            order += range(dof, dof + {"ball": 3, "free": 6}.get(joint.kind, 1))
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        M = M[np.ix_(order, order)]
        worst = max(worst, float(np.abs(mass_matrix(robot, np.random.default_rng(pose)) - M).max() / np.abs(M).max()))
    return {"n": n, "masses": worst}


def _derived(file: Path, ignore: list[str]) -> Result:
    """The largest difference of a file's accelerations from MuJoCo's, relative to the largest; None: not compared."""
    from servonode.plants import MachineSource
    from servonode.wings.robots import judge
    from servonode.wings.robots.definition import RobotDefinition

    seen, begun = list[Any](), time.process_time()

    class Recorded(judge._Compared):
        def __init__(self, *values: Any) -> None:
            super().__init__(*values)
            seen.append(self)

    judge._Compared = Recorded  # type: ignore[misc]
    machine = MachineSource(RobotDefinition(file.name, file), {"ignore": ignore} if ignore else {}).load({})
    found = {"n": len(machine.description.velocities), "seconds": round(time.process_time() - begun, 1), "miss": None}
    if seen:
        largest = max(judge.LEAST, *(abs(each.expected).max(initial=0.0) for each in seen))
        found["miss"] = float(max(each.missed.max(initial=0.0) for each in seen) / largest)
    return found


# all of them


def run(given: argparse.Namespace) -> None:
    """Read the files of packages and write their results."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    seen = set[str]()
    found = {name: list(robots(folder, seen)) for name, folder in folders(given.folders)}
    keys = [
        (f"{name}/{file.relative_to(folder)}", file) for name, folder in folders(given.folders) for file in found[name]
    ]
    files = {key: file for key, file in keys if not any(re.search(each, key) for each in given.without)}
    results = {key: value for key, value in results.items() if key in files}
    waiting = [key for key in files if key not in results or (given.only and re.search(given.only, key))]
    print(f"{len(files)} files, {len(waiting)} to read", flush=True)
    for name in WARM:  # once, for all processes
        importlib.import_module(name)

    for key in waiting:
        results[key] = in_process(files[key], False, given.limit)
        print(key, results[key].get("refused") or results[key], flush=True)
        RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n")
    loaded = [
        key for key in files if not results[key].get("refused") and (key in waiting or "seconds" not in results[key])
    ]
    for key in sorted(loaded, key=lambda key: results[key]["n"]):
        results[key] |= in_process(files[key], True, given.limit)
        print(key, results[key].get("refused") or results[key], flush=True)
        RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n")


def in_process(file: Path, derive: bool, limit: float) -> Result:
    """The result of a file by a process of its own that has so many seconds of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        child = os.fork()
        if not child:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
                os.environ["XDG_CACHE_HOME"] = folder  # so that everything is derived anew
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
                answer.write_text(json.dumps(one(file, derive)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if answer.exists() and answer.stat().st_size:
            return json.loads(answer.read_text())
        return {"refused": f"takes more than {limit:g} s, or ends the process", "seconds": limit}


# the page


def before(released: bool) -> dict[str, str]:
    """What the page says of each file in its column "before"; of a page that has been released, its result."""
    rows = (
        [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")] if PAGE.exists() else []
    )
    return {row[0].strip("| `"): (row[1] if released else row[-1].removesuffix(" |")) for row in rows}


def result(found: Result) -> str:
    """What became of a file."""
    if text := found.get("refused"):
        text = re.sub(r" the folder /.*|: the largest exceeds.*|; .*", "", text.partition(": ")[2] or text)
        return "refused: " + text.replace("|", "/").replace("<", "&lt;")[:MOST_LETTERS]
    if (found.get("masses") or 0.0) > RIGHT:  # accelerations that differ by more than rounding are refused
        return "differs"
    ignored = f", without {', '.join(found['ignore'])}" if found["ignore"] else ""
    return ("right" if not found["alone"] else "read") + ignored


def counts(results: dict[str, Result]) -> list[str]:
    """The sentences above the table."""
    whole = [each for each in results.values() if not each.get("alone", "?")]
    rest = [each for each in results.values() if each.get("alone", "?")]
    loaded = [each for each in whole if not each.get("refused")]
    plain = [each for each in loaded if not each["ignore"]]
    refused = sum(bool(each.get("refused")) for each in rest)
    misses = [each["miss"] for each in results.values() if each.get("miss") is not None]
    most = max(misses, default=0)
    slow = sum(each.get("seconds", 0) > MOST_SECONDS for each in results.values())
    read = [each for each in results.values() if not each.get("refused")]
    derived = sum("seconds" in each for each in read)
    return [
        f"* {len(results)} files; MuJoCo compiles {len(whole)} of them by itself, each body that moves with a mass.",
        f"* Of these {len(loaded)} load ({len(loaded) / len(whole):.1%}), {len(plain)} ({len(plain) / len(whole):.1%})",
        "  with nothing ignored; the others are refused in one line.",
        f"* MuJoCo does not compile {len(rest)}; {refused} are refused in one line, {len(rest) - refused} are read:",
        "  inertias are judged where parts are joined, links that joints of others move need none of their own, shapes",
        "  need no size, and what is only seen no texture. `check` says of each that MuJoCo does not compare it.",
        f"* {derived} of the {len(read)} that load were derived, of the others only mass matrices were compared. The",
        f"  accelerations of {len(misses)} were compared with MuJoCo's: they differ by {most:.0e} of the largest or",
        f"  less. {slow} files took more than {MOST_SECONDS:g} s.",
    ]


def kinds(results: dict[str, Result]) -> list[str]:
    """What is refused, most frequent first."""
    texts = [result(each).removeprefix("refused: ") for each in results.values() if each.get("refused")]
    found = Counter(re.sub(r'".*?"|[-+]?\d[\d.]*(e-?\d+)?', "…", text) for text in texts)
    return [f"| {text} | {number} |" for text, number in found.most_common(MOST_KINDS)]


def page(results: dict[str, Result], released: bool) -> None:
    """Write the page."""
    stood = before(released)
    lines = [
        *PREFACE.splitlines(),
        "",
        *counts(results),
        "",
        "| most often refused | files |",
        "|---|---|",
        *kinds(results),
    ]
    lines += [
        "",
        *COLUMNS.splitlines(),
        "",
        "| file | result | n | masses | accelerations | s | before |",
        "|---|---|---|---|---|---|---|",
    ]
    for key, each in sorted(results.items()):
        numbers = [f"{each[word]:.0e}" if each.get(word) is not None else "" for word in ("masses", "miss")]
        seconds = f"{each['seconds']:.1f}" if each.get("seconds") is not None else ""
        cells = [f"`{key}`", result(each), str(each.get("n", "")), *numbers, seconds, stood.get(key, "")]
        lines.append(f"| {' | '.join(cells)} |")
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--without", action="append", default=[*WITHOUT])
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--released", action="store_true")
    parser.add_argument("--nice", type=int, default=15)
    given = parser.parse_args()
    if not given.table:
        os.nice(given.nice)
        run(given)
    page(json.loads(RESULTS.read_text()), given.released)


if __name__ == "__main__":
    main()
