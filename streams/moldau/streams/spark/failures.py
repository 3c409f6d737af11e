"""One line for a failure of Spark's, without the frames of Java and of Python. Pure."""

from __future__ import annotations

import re
from typing import Final

_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def first_line(error: BaseException) -> str:
    """Return the line that tells the cause."""
    text = str(error)
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return missing_package(missing[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("moldau.") or "Error:" in line]
    return (told or lines or [type(error).__name__])[-1 if told else 0]


def missing_package(name: str) -> str:
    """Return what to do about a package that executors lack."""
    return (
        f"the executors have no package {name}: install it on each machine, for the Python of "
        "PYSPARK_PYTHON, which must be of the driver's version"
    )
