"""Make the pictures of README and pages, in docs/images, by the commands that a reader has.

    python docs/validation/pictures.py              all of them, a few minutes
    python docs/validation/pictures.py NAME ...     only these

Not made here: the window and pages in a browser, which have screenshots.py, but for rerun.png; the gallery's have
gallery.py, its drawings drawings.py, the README's animation mosaic.py.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gallery_entries.png import packed
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
OWN = "examples/compared/sphero.toml:controller.settings.kind"
COMMANDS = {
    "snowboarder.gif": "simulate snowboarder_carve --movie {} --fps 20 --speed 0.9 --panel sigma --panel N,R",
    "trailer_pursuit.png": "simulate trailer_pursuit --report {}",
    "trailer_reverse.png": "simulate trailer_reverse --report {}",
    "comparison.png": "compare trailer_pursuit trailer_pursuit:controller.settings.rho0=1 --output {}",
    "controllers.png": f"compare examples/compared/sphero_law.toml {OWN}=lqr {OWN}=pid {OWN}=mpc {OWN}=policy"
    " --output {}",
    "mujoco_reverse.png": "compare trailer_reverse trailer_reverse_mujoco --output {}",
    "stable_inversion.png": "simulate examples/inverted_pendulum/cart.toml --report {}",
    "crane.png": "simulate examples/crane/crane.toml --report {}",
    "kept_crane.png": "simulate examples/kept/crane.toml --report {}",
    "rest_to_rest.png": "simulate examples/crane/rest_to_rest.toml --report {}",
    "region_look_ahead.png": "region trailer_look_ahead --over plant.initial.phi=-3:3 --over plant.initial.psi=-3:3"
    " --require 'the trailer folds: max(abs(phi)) < 1.5' --set run.duration=20 --points 33 --output {}",
    "kept_region.png": "region examples/kept/cart.toml --over plant.initial.x=-0.9:0.9"
    " --over plant.initial.theta=-0.5:0.5 --require kept --set target.X=0 --set run.duration=4 --points 25 --output {}",
    "kept_cart.png": "simulate examples/kept/cart.toml --report {}",
    "kept_sphero.png": "simulate examples/kept/sphero.toml --report {}",
    "kept_trailer.png": "simulate examples/kept/trailer.toml --report {}",
    "robustness.png": "robustness trailer_pursuit --set run.duration=10 --output {}",
    "tune.png": "tune trailer_look_ahead --set run.duration=20 --set plant.initial.Y=0.3"
    " --set plant.sensor.noise=0.002 --set plant.actuator.delay=0.03"
    " --over controller.gains.lambda=0.2:20 --over controller.period=0.005:0.1 --output {}",
    "fastest.png": "fastest trailer_pursuit --set plant.actuator.limit=0.4 --output {}",
    "tutorial_car.png": "simulate examples/car/eight.toml --report {}",
    "tutorial_robot_arm.png": "simulate examples/arm/figure_of_eight.toml --report {}",
}
README, SHARP = "readme.png", "import matplotlib\nmatplotlib.rcParams['savefig.dpi'] = 200\n"
WIDTH = 1320  # pixels: one and a half times what a page shows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files to make; all without")
    known = [README, *COMMANDS]
    names = parser.parse_args().names or known
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of these pictures; choose {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            make(name, Path(folder))


def make(name: str, folder: Path) -> None:
    """Make one picture, packed as tightly as it goes."""
    file = IMAGES / name
    if name == README:  # by its own lines
        (lines,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
        subprocess.run([sys.executable, "-c", SHARP + lines], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shutil.move(folder / "arm.png", file)
    else:
        command = ["servonode", *shlex.split(COMMANDS[name].format(file))]
        sys.stderr.write(f"{shlex.join(command)}\n")
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    if file.suffix == ".png":
        with Image.open(file) as image:
            file.write_bytes(
                packed(image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS))
            )


if __name__ == "__main__":
    main()
