"""What a browser is answered that opens a recording: its report, a page that waits for it, or the reason why not."""

from html import escape

from starlette.responses import HTMLResponse, Response, StreamingResponse

from servonode.web.reports_made import Made

AGAIN_S = 1  # until a page that waits asks again
GONE = "There is no such recording any more; choose one in the list of the page."
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} · servonode</title><link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="../colours.css"><link rel="stylesheet" href="../theme.css">
<link rel="stylesheet" href="../page.css"></head>
<body><header id="bar"><div id="who"><h1>{name}</h1><p id="what">recording</p></div></header>
<p class="note {look}">{text}</p></body></html>
"""


def report_answer(found: Made | None) -> Response:
    """The answer to who opens a recording: see `Recordings.report`.

    A report has an origin of its own: a script that ever came with a recording could not press the stop button.
    """
    if found is None:
        return _page("servonode", GONE, "bad", 404)
    if found.waits:
        return _page(found.name, found.waits, "warn", 202, {"refresh": str(AGAIN_S)})
    if found.problem:
        return _page(found.name, f"Not shown: {found.problem}.", "bad", 422)
    policy = f"sandbox allow-scripts; {found.policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    headers = {"content-security-policy": policy, "content-length": str(found.size)}
    return StreamingResponse(found.pieces(), media_type="text/html", headers=headers)


def _page(name: str, text: str, look: str, status: int, headers: dict[str, str] | None = None) -> Response:
    shown = name.encode(errors="replace").decode()
    return HTMLResponse(_PAGE.format(name=escape(shown), text=escape(text), look=look), status, headers)
