"""Say in one line which file of a source Spark could not read. No IO.

Spark tells the file and the reason in different messages, one of them the cause of the other.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from moldau.spark.reach import Unavailable

_FILE: Final = re.compile(r"Encountered error while reading file (\S+?)\.\s")
_MALFORMED: Final = re.compile(r"\[MALFORMED_\w+[\w.]*\]")


def raise_readable(error: Exception) -> NoReturn:
    """Raise the error that ended a query or a read; ConfigError if it is a file's."""
    text = "\n".join(_messages(error))
    file, is_malformed = _FILE.search(text), _MALFORMED.search(text) is not None
    if file is None and not is_malformed:
        raise error
    where = {} if file is None else {"file": file[1]}
    if is_malformed:
        raise Unavailable(
            "a row of the source cannot be parsed, or does not fit source.schema: correct it, or "
            "leave such rows out with errors.tolerance=all",
            **where,
        ) from error
    raise Unavailable(
        "Spark cannot read a file of the source: correct it, or remove it", **where
    ) from error


def _messages(error: BaseException) -> list[str]:
    """Return the messages of an error and of its causes."""
    found: list[str] = []
    each: BaseException | None = error
    while each is not None:
        found.append(str(each))
        each = each.__cause__ or getattr(each, "_cause", None)
    return found
