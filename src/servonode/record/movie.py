"""A movie of a run, in memory and in a file."""

import base64
from dataclasses import dataclass
from pathlib import Path

from servonode.tables import Row, Tabular


@dataclass(frozen=True, repr=False)
class Movie(Tabular):
    """A movie: `data` holds the bytes of the file, `file` says where it was written (None: nowhere)."""

    data: bytes
    file: Path | None = None

    @property
    def media(self) -> str:
        """The media type: video/mp4 or image/gif."""
        return "image/gif" if self.data[:4] == b"GIF8" else "video/mp4"

    def table(self) -> tuple[str, list[Row]]:
        where = str(self.file) if self.file else "in memory; movie.save(file) writes it"
        return f"Movie {self.media}", [("size", f"{len(self.data) / 1e6:.2f} MB"), ("file", where)]

    def _repr_html_(self) -> str:
        """The movie itself, within the page."""
        source = f"data:{self.media};base64,{base64.b64encode(self.data).decode()}"
        if self.media == "image/gif":
            return f'<img alt="movie of the run" style="max-width:100%" src="{source}">'
        return f'<video controls loop muted style="max-width:100%" src="{source}"></video>'

    def save(self, file: str | Path) -> Path:
        """Write the movie into a file; its path. OSError where it cannot be written."""
        path = Path(file)
        path.write_bytes(self.data)
        return path
