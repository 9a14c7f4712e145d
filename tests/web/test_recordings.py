"""The recordings of a folder in a page: their list, their reports, what is not shown and why, who may open what."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcap.writer import Writer

from servonode.record.bag import read_bag
from servonode.record.info import info
from servonode.record.summary import summary
from servonode.web import reports_made
from servonode.web.recordings import MOST, Recordings, recordings_in
from servonode.web.reports_made import Reports
from tests.helpers.pages import COMMAND, LINK, PageProcess, begun, browser, is_stopped, needs_browser, told
from tests.helpers.runs import START_S, Runs, eventually, operator, private_runs

LOOK_S = 60.0  # within which a report is made on a busy computer
CODE = "from pathlib import Path\nPath('was_run').touch()\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording")
    with private_runs(folder) as runs:
        run = runs.start("trailer_pursuit_lockstep", "run.duration=1", words=("--record", str(folder / "whole.mcap")))
        run.ends_with(0, START_S)
    return folder / "whole.mcap"


@pytest.fixture(scope="module")
def shelf(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording, and with files that are not recordings."""
    folder = tmp_path_factory.mktemp("shelf")
    whole = recording.read_bytes()
    shutil.copy(recording, folder)
    (folder / "cut.mcap").write_bytes(whole[: len(whole) - len(whole) // 20])
    (folder / "begin.mcap").write_bytes(whole[:6000])
    (folder / "text.mcap").write_text("no recording\n")
    (folder / "<b>odd name & 'all'.mcap").write_bytes(whole)
    foreign(folder / "foreign.mcap")
    outside = tmp_path_factory.mktemp("outside") / "outside.mcap"
    shutil.copy(recording, outside)
    (folder / "link.mcap").symlink_to(outside)
    os.mkfifo(folder / "pipe.mcap")
    (folder / "notes.txt").write_text("a secret")
    with_code(recording, folder)
    with_code(recording, folder, claimed="diff_drive_trailer")
    return folder


def foreign(file: Path) -> None:
    """An MCAP file of others."""
    with file.open("wb") as stream:
        writer = Writer(stream)
        writer.start(library="other 1.0")
        channel = writer.register_channel("/x", "json", writer.register_schema("x", "jsonschema", b"{}"))
        for i in range(100):
            writer.add_message(channel, i, b"{}", i)
        writer.finish()


def with_code(recording: Path, folder: Path, claimed: str = "./evil.py:model") -> None:
    """A recording whose launch file names Python code; its metadata may claim another machine."""
    (folder / "evil.py").write_text(CODE)
    known = read_bag(recording)
    known.launch["table"]["plant"]["machine"] = "./evil.py:model"
    known.launch["path"] = str(folder / "evil.toml")
    with (folder / f"code_{claimed.isidentifier()}.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.add_metadata("servonode", known.about | {"machine": claimed})
        writer.add_attachment(0, 0, "launch.json", "application/json", json.dumps(known.launch).encode())
        writer.finish()


@pytest.fixture(scope="module")
def page(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageProcess]:
    folder = tmp_path_factory.mktemp("page")
    with private_runs(folder), PageProcess(folder, cwd=shelf) as found:
        yield found


def listed(page: PageProcess) -> dict[str, dict[str, Any]]:
    """What the page lists, by file."""
    status, text, _ = page.link.ask(path="recordings")
    assert status == 200
    return {each["file"]: each for each in json.loads(text)["recordings"]}


def opened(page: PageProcess, number: int) -> tuple[int, str, dict[str, str]]:
    """What comes of a click on a recording, at the end."""
    found: list[tuple[int, str, dict[str, str]]] = []

    def comes() -> bool:
        found.append(page.link.ask(path=f"recordings/{number}"))
        return found[-1][0] != 202

    assert eventually(comes, LOOK_S)
    assert all("refresh" in headers for status, _, headers in found if status == 202)
    return found[-1]


# the list


def test_a_summary_is_what_the_whole_recording_says(recording: Path) -> None:
    found, known = summary(recording), info(read_bag(recording))
    assert {name: found[name] for name in ("run", "machine", "program", "mode", "ended", "begin_ns")} == {
        name: known[name] for name in ("run", "machine", "program", "mode", "ended", "begin_ns")
    }
    assert found["duration"] == pytest.approx((known["end_ns"] - known["begin_ns"]) / 1e9)
    assert (found["ended"], found["faults"], found["damage"]) == ("completed", [], "")  # of less than one chunk, too


def test_the_list_says_what_each_file_is_and_why_it_is_not_shown(page: PageProcess) -> None:
    found = listed(page)
    problems = {name: each.get("problem", "") for name, each in found.items()}
    assert {name for name, problem in problems.items() if not problem} == {
        "whole.mcap", "cut.mcap", "begin.mcap", "<b>odd name & 'all'.mcap", "code_True.mcap",
    }  # fmt: skip
    assert found["whole.mcap"]["machine"] == "diff_drive_trailer"
    assert found["whole.mcap"]["ended"] == "completed"
    assert "its end is cut off" in found["cut.mcap"]["damage"]
    assert problems["text.mcap"].startswith("not a recording")
    assert "not a recording of servonode (other 1.0)" in problems["foreign.mcap"]
    assert problems["link.mcap"] == problems["pipe.mcap"] == "it is a link or no file, which a page does not follow"
    assert problems["code_False.mcap"] == (
        "it names Python code (./evil.py:model), which a page does not run; "
        "see it with: servonode bag report code_False.mcap --report code_False.html"
    )


def test_a_hundred_recordings_are_listed_by_one_process_and_the_stop_does_not_wait(
    recording: Path, tmp_path: Path
) -> None:
    for i in range(MOST + 7):
        os.link(recording, tmp_path / f"{i}.mcap")
    found, more, problem = recordings_in(tmp_path)
    assert (len(found), more, problem) == (MOST, 7, "")

    async def told_of() -> tuple[dict[str, Any], float]:
        recordings, longest = Recordings(tmp_path), 0.0
        asking = asyncio.ensure_future(recordings.told())
        while not asking.done():
            begun_at = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - begun_at)
        return asking.result(), longest

    told_now, longest = asyncio.run(told_of())
    assert len(told_now["recordings"]) == MOST
    assert {each["run"] for each in told_now["recordings"]} == {summary(recording)["run"]}
    assert longest < 1.0  # the server goes on meanwhile


def test_a_folder_that_has_gone_is_said(tmp_path: Path) -> None:
    told_now = asyncio.run(Recordings(tmp_path / "nix").told())
    assert told_now["recordings"] == []
    assert "nix cannot be read (No such file or directory)" in told_now["problem"]


def test_a_recording_that_is_complete_appears_and_one_that_is_written_anew_is_another(
    page: PageProcess, shelf: Path, recording: Path
) -> None:
    shutil.copy(recording, shelf / "new.mcap.part")
    assert "new.mcap.part" not in listed(page)
    (shelf / "new.mcap.part").replace(shelf / "new.mcap")
    assert eventually(lambda: "new.mcap" in listed(page))
    number = listed(page)["new.mcap"]["number"]
    (shelf / "new.mcap").unlink()
    assert eventually(lambda: "new.mcap" not in listed(page))
    status, text, _ = page.link.ask(path=f"recordings/{number}")
    assert (status, "There is no such recording any more" in text) == (404, True)


# reports


def test_a_click_opens_the_report_which_may_do_nothing_but_draw(page: PageProcess) -> None:
    found = listed(page)
    status, text, headers = opened(page, found["whole.mcap"]["number"])
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert text.startswith("<!doctype html>")
    assert "diff_drive_trailer" in text
    assert int(headers["content-length"]) == len(text.encode())
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ")
    assert headers["referrer-policy"] == "no-referrer"
    begun_at = time.monotonic()
    assert page.link.ask(path=f"recordings/{found['whole.mcap']['number']}")[:2] == (200, text)  # it is kept
    assert time.monotonic() - begun_at < 5
    assert opened(page, found["cut.mcap"]["number"])[0] == 200
    assert not Path("was_run").exists()


def test_what_cannot_be_drawn_says_why_in_one_line(page: PageProcess, shelf: Path) -> None:
    found = listed(page)
    reasons = {
        "begin.mcap": "holds no rows and no plant/state of which they can be made",
        "text.mcap": "not a recording",
        "link.mcap": "it is a link or no file, which a page does not follow",
        "code_False.mcap": "it names Python code (./evil.py:model), which a page does not run",
        "code_True.mcap": "it names Python code (./evil.py:model), which a page does not run",  # whatever it claims
    }
    for name, reason in reasons.items():
        status, text, _ = opened(page, found[name]["number"])
        assert (status, reason in text, "Traceback" in text) == (422, True, False), text
    assert not (shelf / "was_run").exists()


@pytest.mark.parametrize(
    "path",
    ["recordings/999999", "recordings/whole.mcap", "recordings/../notes.txt", "recordings/%2e%2e/notes.txt",
     "recordings//etc/passwd", "recordings/1/..", "recordings/-1", "recordings/" + "9" * 4000],
)  # fmt: skip
def test_nothing_but_a_number_of_the_list_opens_anything(page: PageProcess, path: str) -> None:
    status, text, _ = page.link.ask(path=path)
    assert status in (404, 405)
    assert "secret" not in text
    assert "root:" not in text


def test_list_and_reports_need_the_secret_and_change_nothing(page: PageProcess) -> None:
    number = listed(page)["whole.mcap"]["number"]
    for path in ("recordings", f"recordings/{number}"):
        assert page.link.ask(path=f"/wrong/{path}")[0] == 403
        assert page.link.ask(path=path, Host="evil.example")[0] == 403
        assert page.link.ask(path=path, Origin="http://evil.example")[0] == 403
        assert page.link.ask("POST", path, Origin=page.link.origin)[0] == 405


def test_one_report_is_made_at_a_time_within_its_time_and_a_failure_is_tried_again(
    recording: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(reports_made, "TIME_S", 0.2)

    async def made() -> None:
        reports = Reports(recording.parent)
        assert reports.of(1, "whole.mcap").waits == "Its report is being made, and will be shown here."
        assert reports.of(1, "whole.mcap").waits == "Its report is being made, and will be shown here."
        assert reports.of(2, "other.mcap").waits == "It waits until the report of whole.mcap is made."
        while reports.of(2, "other.mcap").waits.startswith("It waits"):
            await asyncio.sleep(0.05)
        problem = reports.of(1, "whole.mcap").problem
        assert problem == "its report was not made within 0 s; try servonode bag report whole.mcap"
        await reports.close()
        assert reports.of(1, "whole.mcap").waits
        await reports.close()

    asyncio.run(made())


# the command


def test_without_a_run_the_page_shows_the_recordings_and_then_the_run_that_begins(
    recording: Path, tmp_path: Path
) -> None:
    with private_runs(tmp_path) as runs:
        with PageProcess(tmp_path, cwd=recording.parent) as page, page.link.feed() as feed:
            assert eventually(lambda: told(feed).get("waiting") == "no run is in progress; the next one is shown here")
            assert list(listed(page)) == ["whole.mcap"]
            answer = page.link.stop()
            assert (answer["confirmed"], "no run is in progress" in answer["text"]) == (False, True)
            run = begun(runs, "trailer_pursuit")
            assert eventually(lambda: told(feed).get("layout", {}).get("name") == run.name, START_S)
            assert page.link.stop()["confirmed"]
            assert is_stopped(run)
        empty = tmp_path / "empty"
        empty.mkdir()
        run.end()
        done = operator("page", cwd=empty)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("servonode: no run is in progress; start one with servonode run FILE")
        assert operator("page", "nix", cwd=recording.parent).returncode == 2


@needs_browser
@pytest.mark.slow
def test_beside_a_run_a_recording_is_opened_in_a_browser(runs: Runs, recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    subprocess.run([*COMMAND, "new", "machine", "my_crane"], cwd=folder, check=True, capture_output=True)
    shutil.copy(recording, folder)
    with_code(recording, folder)
    run = begun(runs, "trailer_pursuit")
    with PageProcess(tmp_path, run.name, cwd=folder) as page, browser() as chromium:
        assert LINK.search(page.stderr)
        chromium.get(page.link.url)
        assert eventually(lambda: chromium.execute_script("return page.columns.count") > 20, START_S)
        assert eventually(lambda: len(chromium.find_elements("css selector", "#recordings tbody tr")) == 2)
        assert "it names Python code" in chromium.find_element("id", "recordings").text
        chromium.find_element("link text", "whole.mcap").click()
        assert eventually(lambda: len(chromium.window_handles) == 2)
        chromium.switch_to.window(chromium.window_handles[1])
        assert eventually(lambda: chromium.find_elements("css selector", "#curves canvas"), LOOK_S)
        assert "diff_drive_trailer" in chromium.find_element("id", "launch").get_attribute("textContent")
        press = "return await fetch('../stop', {method: 'POST'}).then((r) => r.status, (e) => 'refused')"
        assert chromium.execute_script(press) in ("refused", 403)
        assert not is_stopped(run)
        logged = [each["message"] for each in chromium.get_log("browser") if each["level"] == "SEVERE"]
        assert all("stop" in message for message in logged)
        chromium.switch_to.window(chromium.window_handles[0])
        chromium.find_element("id", "stop").click()
        assert eventually(lambda: is_stopped(run))
