"""The cells of a page's tables."""

from __future__ import annotations

from html.parser import HTMLParser


class Cells(HTMLParser):
    """The texts of a page's table cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._is_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self._is_cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = self._is_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._is_cell and data.strip():
            self.rows[-1][-1] += f" {data.strip()}"

    def row(self, first: str) -> list[str]:
        """The row whose first cell has this text."""
        return next(
            [cell.strip() for cell in row] for row in self.rows if row and row[0].strip() == first
        )
