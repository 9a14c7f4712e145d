"""Pictures that run: on the site a picture that links to a launch file is the report of its run, with its sliders.

In the repository the same Markdown is the picture, with a link to the file.
"""

import json
import shlex
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from repository_links import ADDRESS, ROOT
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

FOLDER = "_static/live"  # of the site, where the reports stand
SCREEN = (
    '<figure class="live{kind}"><iframe src="{at}" title="{title}" loading="lazy"></iframe>'
    '<figcaption>{title}. <a href="{at}">Alone</a>, <a href="{source}">its launch file</a>: '
    "<code>servonode simulate {name}</code></figcaption></figure>"
)


LESSON = "how_to/lesson"  # the page whose reports are shown whole, and saved together as one file
JOINED = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0; }} iframe {{ width: 100%; height: 100vh; border: 0; border-bottom: 1px solid gray; }}</style>
{reports}
</html>
"""
# the sliders of a figure, where others than a gain, goals and a start tell more of its machine
VARIED: dict[str, tuple[str, ...]] = {
    "trailer_reverse_circle": ("controller.settings.radius", "controller.settings.v", "plant.initial.phi"),
    "trailer_pursuit": ("controller.settings.a", "goal.speed", "controller.gains.lambda", "plant.initial.psi"),
    "sphero_pursuit": ("controller.settings.v_max", "controller.settings.kappa", "plant.parameters.l", "goal.speed"),
    "snowboarder_carve": ("controller.gains.lambda", "plant.parameters.m0", "plant.parameters.k_t"),
    "ball_circle": ("plant.parameters.g_x", "plant.parameters.g_y"),
}


class LiveFigures(SphinxTransform):
    """Replaces pictures that lead to launch files."""

    default_priority = 4  # before links are resolved

    def apply(self, **kwargs: Any) -> None:  # noqa: ARG002
        for kind in (addnodes.download_reference, addnodes.pending_xref, nodes.reference):
            for link in list(self.document.findall(kind)):
                target = link.get("reftarget") or link.get("refuri") or ""
                picture = next(iter(link.findall(nodes.image)), None)
                if picture is not None and target.endswith(".toml"):
                    self.replace(link, (Path(self.env.doc2path(self.env.docname)).parent / target).resolve(), picture)

    def replace(self, link: nodes.Element, launch: Path, picture: nodes.image) -> None:
        """Put the report of a launch file in the place of its picture."""
        source = f"{ADDRESS}/blob/main/{launch.relative_to(ROOT).as_posix()}"
        stem = launch.stem
        self.env.metadata[self.env.docname].setdefault("live", {})[stem] = str(launch)
        up = "../" * self.env.docname.count("/")
        name = stem if "launch" in launch.parts else launch.relative_to(ROOT).as_posix()
        whole = self.env.docname == LESSON
        at, title = f"{up}{FOLDER}/{stem}.html", escape(picture.get("alt", ""))
        text = SCREEN.format(
            at=at if whole else f"{at}#figure", kind=" whole" * whole, title=title, source=source, name=escape(name)
        )
        link.parent.replace(link, nodes.raw("", text, format="html"))


def write_reports(app: Sphinx, error: Exception | None) -> None:
    """Simulate each launch file that a page shows, and write its report."""
    if error is not None or app.builder.format != "html":
        return
    wanted: dict[str, str] = {}
    for page in app.env.metadata.values():
        wanted |= page.get("live", {})
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for stem, launch in wanted.items():
        command = [sys.executable, "-m", "servonode", "simulate", launch, "--report", str(folder / f"{stem}.html")]
        if stem in VARIED:
            command += ["--set", f"report.vary={json.dumps(VARIED[stem])}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExtensionError(f"{shlex.join(command)}: {done.stderr}")
    reports = [folder / f"{stem}.html" for stem in app.env.metadata[LESSON].get("live", {})]
    texts = [f'<iframe srcdoc="{escape(each.read_text("utf-8"))}"></iframe>' for each in reports]
    joined = JOINED.format(title=escape(app.env.titles[LESSON].astext()), reports="\n".join(texts))
    (folder / "lesson.html").write_text(joined, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(LiveFigures)
    app.connect("build-finished", write_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
