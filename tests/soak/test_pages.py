"""The pages with commands, followed word for word: every command of every how-to is typed, but for those of OUTSIDE.

Runs in real time get more time for an answer than the pages say, for tests share their processors with others; runs of
which a page prints no numbers are shorter or faster.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from servonode.plants.drivers.serial import ports
from servonode.views.movie import ffmpeg
from servonode.wings.web.listening import tls_of
from tests.helpers.boards import emulator_first, program
from tests.helpers.firmware import needs_commands, needs_compiler
from tests.helpers.followed import DOCS, Page
from tests.helpers.packages import install_example
from tests.helpers.pages import Link, browser, needs_browser
from tests.helpers.runs import START_S, eventually

HOW_TO = DOCS / "how_to"

ROOT = DOCS.parent

OUTSIDE = {  # what cannot be typed here, and why
    'pip install "servonode[web]"': "the environment of the tests is not changed",
    'pip install "servonode[mujoco]"': "the environment of the tests is not changed",
    'pip install "servonode[neighbours]"': "the environment of the tests is not changed",
    "export RMW_IMPLEMENTATION=rmw_cyclonedds_cpp ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST": "needs ROS 2",
    "ros2 topic echo /joint_states": "needs ROS 2",
    "ros2 run teleop_twist_keyboard teleop_twist_keyboard": "needs ROS 2",
    "ros2 service call /servonode/stop std_srvs/srv/Trigger": "needs ROS 2",
    "pip install examples/driver": "the environment of the tests is not changed; the test installs it into a folder",
    "pip install examples/base": "the environment of the tests is not changed; the test installs it into a folder",
    "python examples/base/joystick.py /dev/input/js0": "needs a joystick",
    "pip install examples/extension": "the environment of the tests is not changed; the test installs it into a folder",
    "ssh -L 8642:localhost:8642 robot servonode page": "needs a second computer",
    "servonode page --host 0.0.0.0 --certfile robot.pem --keyfile robot.key": "needs a second computer",
    "servonode bag merge robot.mcap desk.mcap": "needs a second computer",
    "ssh -L 9872:127.0.0.1:9872 USER@ROBOT": "needs a second computer",
    "dask scheduler --port 8786": "needs a second computer",
    "dask worker tcp://10.0.0.7:8786 --nthreads 4": "needs a second computer",
    'pip install "servonode[gym,mpc,policy]" stable-baselines3 onnxscript': "PyTorch is none of the tests'",
    "python examples/compared/train.py examples/compared/cart.toml": "PyTorch is no dependency of the tests",
    "servonode sweep trailer_sweep --scheduler tcp://10.0.0.7:8786 --output cluster.zarr": "needs a second computer",
}

REPLACED = dict.fromkeys(OUTSIDE, ":") | {  # a busy computer ends no run that a reader only looks at
    " --no-report": " --no-report --set plant.safety.command_timeout_floor=0.5"
}

REPLACED |= {
    "--set run.duration=15 --movie": "--set run.duration=3 --movie",
    "simulate trailer_reverse --movie": "simulate trailer_reverse --set run.duration=6 --movie",
    "run trailer_reverse --no-report --record": "run trailer_reverse --set run.duration=6 --no-report --record",
    "run trailer_reverse --no-report\n": "run trailer_reverse --set run.speed=8 --no-report\n",
    "run trailer_reverse_mujoco": "run trailer_reverse_mujoco --set run.speed=8",
    "--set run.duration=30": "--set run.duration=5",
    "run trailer_pursuit_lockstep\n": "run trailer_pursuit_lockstep --set run.duration=10\n",
}

NEEDS = {  # what a page's commands need beside servonode
    "how_to/export_to_c": lambda: shutil.which("cc"),
    "how_to/learning": lambda: find_spec("gymnasium"),
    "how_to/mobile_base": lambda: find_spec("uvicorn"),
    "how_to/own_laws": lambda: find_spec("gymnasium") and find_spec("onnxruntime"),
    "how_to/pictures": ffmpeg,
    "how_to/mujoco": lambda: find_spec("mujoco"),
    "how_to/ros2": lambda: find_spec("cyclonedds") and find_spec("rosbags"),
    "how_to/foxglove": lambda: find_spec("foxglove"),
    "how_to/other_tools": lambda: find_spec("rosbags") and find_spec("foxglove") and find_spec("rerun"),
    **dict.fromkeys(("how_to/robots", "how_to/closed_loops", "tutorials/robot_arm"), lambda: find_spec("mujoco")),
    "how_to/teaching": lambda: shutil.which("pdflatex"),
    "how_to/watch": lambda: (
        all(map(shutil.which, ("chromedriver", "openssl", "Xvfb"))) and find_spec("uvicorn") and ffmpeg()
    ),
}

MADE = {  # the files that a page's commands leave, beside those that it shows
    "how_to/analysis": (
        "straight.mcap", "next.mcap", "fit.png", "next.toml", "robot.toml", "poles.png", "response.png", "orbit.png",
    ),
    "how_to/pictures": (
        "pursuit.png", "pursuit.pdf", "pursuit.svg", "pursuit.html", "distance.pdf", "measured.csv", "compare.png",
        "slide.png", "pursuit.mp4", "reverse.gif", "recorded.mp4",
    ),
    "how_to/export_to_c": ("pursuit.c", "loop", "by_c.txt"),
    "how_to/limits": ("region.png",),
    "how_to/many_runs": ("region.png", "robustness.png", "tune.png", "fastest.png"),
    "how_to/mobile_base": ("eight.png",),
    "how_to/mujoco": ("compare.png",),
    "how_to/own_laws": ("compare.png", "speed.mcap", "lqr.py", "lqr.toml", "cart.png"),
    "how_to/recordings": (
        "pursuit.mcap", "trailer_reverse.mcap", "pursuit.html", "pursuit.npz", "states.csv", "compare.png", "hitch.png",
    ),
    "how_to/other_tools": ("pursuit_ros2.mcap", "pursuit_foxglove.mcap", "pursuit.rrd"),
    "how_to/robots": ("arm_written.urdf",),
    "how_to/several_computers": ("robot.mcap", "desk.mcap", "pursuit.mcap"),
    "how_to/teaching": ("coast.png", "equations.tex", "equations.pdf", "reverse.html", "crane.png", "result.json"),
    "how_to/watch": ("trailer_pursuit.mcap", "circle.mcap", "tuned.toml"),
    "reference/python": ("reverse.html", "whole.png", "chosen.pdf", "path.png", "reverse.gif"),
    "tutorials/first_run": ("trailer_pursuit.png", "turn.png", "turn.csv", "compare.png"),
    "tutorials/own_machine": ("car.png", "tutorial_car.png", "compare.png"),
    "tutorials/robot_arm": ("hold.png", "eight.png", "mujoco.png", "my_arm.py"),
}  # fmt: skip

BEGINS = {
    ".png": b"\x89PNG", ".pdf": b"%PDF", ".gif": b"GIF8", ".mcap": b"\x89MCAP", ".npz": b"PK",
    ".html": b"<!doctype html", ".svg": b"<?xml", ".json": b"{",
}  # fmt: skip

CONTENT = {".c": b"#include <math.h>", ".tex": b"\\begin{document}"}  # somewhere in it


def is_made(file: Path) -> bool:
    """Whether a file is there and holds what its ending says."""
    content = file.read_bytes() if file.is_file() else b""
    begins = content[:20].lower().startswith(BEGINS.get(file.suffix, b"").lower())
    return bool(content) and begins and CONTENT.get(file.name, CONTENT.get(file.suffix, b"")) in content


def how_tos() -> list[str]:
    return sorted(f"how_to/{file.stem}" for file in HOW_TO.glob("*.md"))


OTHERS = {  # pages that are no how-tos, and how many of their sections install something
    "tutorials/first_run": 1,
    "tutorials/own_machine": 0,
    "tutorials/robot_arm": 1,
    "systems/extended": 0,
    "reference/python": 0,
}

LIVE = (  # tests of their own below
    "how_to/boards", "how_to/watch", "how_to/hardware", "how_to/extend", "how_to/several_computers",
    "how_to/mobile_base",
)  # fmt: skip


def page_of(name: str) -> Page:
    return Page(f"{name}.md", OTHERS.get(name, 0), REPLACED if name.startswith("how_to/") else {})


def needs(name: str) -> None:
    if name in NEEDS and not NEEDS[name]():
        pytest.skip(f"needs what docs/{name}.md asks for")


@pytest.mark.parametrize("name", [each for each in (*how_tos(), *OTHERS) if each not in LIVE])
def test_a_page_is_followed(name: str, tmp_path: Path) -> None:
    needs(name)
    page = page_of(name)
    assert page.steps, "a page without a command"
    page.follow(tmp_path)
    assert [each for each in MADE.get(name, ()) if not is_made(tmp_path / each)] == []


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A virtual display of 1500 x 950 pixels."""
    needs("how_to/watch")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-noreset", "-screen", "0", "1500x950x24"]
    server = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as stream:
        name = f":{stream.readline().strip()}"
    monkeypatch.setenv("DISPLAY", name)
    yield name
    server.terminate()
    server.wait(START_S)


def screenshot(display: str, file: Path) -> Any:
    """The pixels (950, 1500, 3) of the display."""
    command = [str(ffmpeg()), "-v", "error", "-y", "-f", "x11grab", "-video_size", "1500x950", "-i", display]
    subprocess.run([*command, "-frames:v", "1", str(file)], check=True)
    return matplotlib.image.imread(file)[..., :3]


@needs_browser
def test_the_page_on_watching_shows_the_machine_and_its_button_stops_the_run(display: str, tmp_path: Path) -> None:
    def is_drawn() -> bool:
        pixels = screenshot(display, tmp_path / "window.png")
        return bool((pixels.min(axis=2) > 0.9).mean() > 0.3)  # white paper, on a black display

    def look(screen: Path) -> None:
        assert eventually(is_drawn, START_S), screen.read_text()
        time.sleep(3.0)  # curves
        assert is_drawn()

    def stop(screen: Path) -> None:
        assert eventually(lambda: "http://" in screen.read_text(), START_S)
        link = Link.read(screen.read_text())
        with browser() as driver:
            driver.get(link.url)
            assert eventually(lambda: "trailer_pursuit" in driver.page_source, START_S)
            time.sleep(2.0)
            driver.save_screenshot(str(tmp_path / "page.png"))
            text = driver.find_element("tag name", "body").text
            assert "speed" in text
            assert "heading" in text
        assert "trailer_pursuit" in str(link.stop())

    folder = tmp_path / "folder"
    folder.mkdir()
    looks = {"servonode run trailer_pursuit --plot": look, "servonode plot": look, "servonode page": stop}
    page_of("how_to/watch").follow(folder, looks)
    assert [each for each in MADE["how_to/watch"] if not is_made(folder / each)] == []
    assert tls_of(folder / "robot.pem", folder / "robot.key")


@pytest.mark.parametrize(
    ("name", "example"), [("how_to/hardware", "driver"), ("how_to/extend", "extension"), ("how_to/mobile_base", "base")]
)
def test_a_page_whose_package_is_installed_is_followed(
    name: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    install_example(tmp_path / "site", example)
    path = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page_of(name).follow(tmp_path)


def test_the_page_on_computers_is_followed_on_one_and_its_key_is_revoked(tmp_path: Path) -> None:
    name = "how_to/several_computers"
    page_of(name).follow(tmp_path)
    assert [each for each in MADE[name] if not is_made(tmp_path / each)] == []
    assert list((tmp_path / "desk" / "trusted").iterdir()) == []


def test_the_page_on_boards_is_followed_with_the_emulator(tmp_path: Path) -> None:
    program("qemu")  # or it is skipped
    needs_commands("qemu-system-arm")
    shutil.copytree(ROOT / "firmware", tmp_path / "firmware", ignore=shutil.ignore_patterns("build"))
    port, baud = f"{tmp_path}/robot", "--set plant.device.baud=115200"
    given = f"{baud} --set plant.device.port={port} --set plant.safety.command_timeout_floor=0.5"
    page = Page("how_to/boards.md", replaced={"/tmp/robot": port, baud: given})

    def look(screen: Path) -> None:
        assert eventually(lambda: emulator_first(tmp_path / "firmware"), START_S), screen.read_text()

    page.follow(tmp_path, {"make -s -C firmware emulate": look})
    made = tmp_path / "firmware/build"
    assert [each for each in ("stm32f446.elf", "rp2040.elf") if not (made / each).is_file()] == []


LAUNCH, PORT = "launch/trailer_pursuit_serial.toml", "/tmp/robot"

BOARD = """
#include "device.h"
#include "my_machine.h"

static const float limits[HIL_N_INPUTS] = {0.4f, 0.4f};

struct machine board(void)
{
    struct machine machine = {0};
    machine.schema = HIL_SCHEMA;
    machine.n_states = HIL_N_STATES;
    machine.n_inputs = HIL_N_INPUTS;
    machine.step_ns = HIL_STEP_NS;
    machine.limits = limits;
    return machine;
}
"""


def test_the_page_on_the_first_robot_is_followed_and_its_header_compiles_beside_the_board(tmp_path: Path) -> None:
    needs_compiler()
    clone = tmp_path / "clone"  # what the page needs of it
    shutil.copytree(ROOT / "firmware", clone / "firmware", ignore=shutil.ignore_patterns("build"))
    (clone / "launch").mkdir()
    text = (ROOT / LAUNCH).read_text("utf-8")
    assert f'port = "{PORT}" ' in text
    (clone / LAUNCH).write_text(text.replace(PORT, f"{clone}/robot"), "utf-8")
    present = " or ".join(ports()) or "another one (this computer has none at present)"
    replaced = {PORT: f"{clone}/robot", "take /dev/ttyS0": f"take {present}"}
    Page("tutorials/first_robot.md", replaced=replaced).follow(clone)

    board = tmp_path / "board"
    board.mkdir()
    for each in (*(clone / "firmware").glob("packet.*"), *(clone / "firmware").glob("device.*")):
        shutil.copy(each, board)
    for name in ("firmware/machine.h", "my_machine.h"):
        shutil.copy(clone / name, board)
    (board / "board.c").write_text(BOARD, "utf-8")
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "board.c", "device.c", "packet.c"]
    done = subprocess.run(command, cwd=board, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
