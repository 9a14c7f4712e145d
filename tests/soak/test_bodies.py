"""The page in a browser shows and turns the bodies of a robot."""

from pathlib import Path

from tests.helpers.extras import needs_mujoco
from tests.helpers.pages import PageProcess, begun, browser, needs_browser
from tests.helpers.runs import START_S, Runs, eventually
from tests.wings.web.test_bodies import loop

needs_mujoco()


PICTURE = "return document.querySelector('.machine canvas').toDataURL()"

PAINTED = """const { canvas, pen } = page.views[0], pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
const known = new Set(theme.bodies.map((each) => each.match(/\\d+/g).join()));
let count = 0;
for (let i = 0; i < pixels.length; i += 4) count += known.has(pixels.slice(i, i + 3).join()) ? 1 : 0;
return count"""


@needs_browser
def test_browser_shows_and_turns_the_bodies_of_a_robot(runs: Runs, tmp_path: Path) -> None:
    loop(tmp_path)
    run = begun(runs, str(tmp_path / "robot.toml"), "plant.initial.a=0.5")
    with PageProcess(tmp_path, run.name) as page, browser() as chromium:
        chromium.get(page.link.url)
        assert eventually(lambda: chromium.execute_script("return page.columns.count") > 5, START_S), page.stderr
        assert eventually(lambda: chromium.execute_script(PAINTED) > 1000)
        chromium.execute_script("page.draw = () => page.connection.drawn()")  # the robot stands still
        before = chromium.execute_script(PICTURE)
        chromium.execute_script("page.views[0].turn(1.0, 0.2)")
        assert chromium.execute_script(PICTURE) != before
        assert chromium.execute_script(PAINTED) > 1000
        assert chromium.find_element("css selector", ".machine p").text.startswith('Not drawn: mesh "absent"')
        assert [each for each in chromium.get_log("browser") if each["level"] == "SEVERE"] == []
