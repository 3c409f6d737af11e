"""docs/explained-*.md: each has a program, which shows what the page says that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.guides import files_of, text_of

pytestmark = pytest.mark.real

PAGES = (
    "explained-log.md",
    "explained-queues.md",
    "explained-time.md",
    "explained-transactions.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_program_of_the_page_shows_what_the_page_says(page: str, tmp_path: Path) -> None:
    ((name, program),) = files_of(page).items()
    (shown,) = re.findall(r"```text\n(.*?)```", text_of(page), re.DOTALL)
    (tmp_path / name).write_text(program, encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - the page's program
        [sys.executable, name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pattern = re.escape(shown).replace(r"\.\.\.", ".*")  # three dots stand for what differs
    assert re.fullmatch(pattern, done.stdout), done.stdout
