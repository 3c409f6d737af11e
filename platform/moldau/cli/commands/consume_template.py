"""Templates of lines, as kcat's users know them: `--format '%t %p %o %k %v %h\\n'`.

    %t topic   %p partition   %o offset   %T timestamp in milliseconds
    %k key     %K its size    %v or %s value   %S its size    %h headers   %% a percent sign

A size is in bytes, -1 for null. `\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\xHH` are escapes. A
template writes what it says and no more: a line ends where it has `\\n`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import UsageError
from moldau.deferred import deferred_pattern

if TYPE_CHECKING:
    from moldau.client import ConsumerRecord, PartitionRecords

Text = Callable[[Any], str]
Piece = Callable[["PartitionRecords", "ConsumerRecord"], str]

_TOKEN: Final = deferred_pattern(r"%(.)|%$|\\(x[0-9A-Fa-f]{2}|.)|\\$|[^%\\]+", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_KNOWN: Final = "%t %p %o %T %k %K %v %s %S %h and %%"


def is_template(text: str) -> bool:
    """Whether the text of `--format` is a template and no name."""
    return "%" in text or "\\" in text


def pieces_of(template: str, text: Text) -> list[Piece]:
    """Return the pieces of a template; `text` shows keys, values and headers. Raise UsageError,
    which names what it does not know."""
    pieces: list[Piece] = []
    for match in _TOKEN.finditer(template):
        sign, escape = match.group(1), match.group(2)
        if sign is not None:
            pieces.append(_field(sign, text))
        elif escape is not None:
            pieces.append(_fixed(_unescaped(escape)))
        elif match.group() in ("%", "\\"):
            raise UsageError(f"--format ends with {match.group()}: write it twice to show it")
        else:
            pieces.append(_fixed(match.group()))
    return pieces


def _unescaped(escape: str) -> str:
    if escape.startswith("x") and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPES:
        raise UsageError(rf"--format has no \{escape}: it knows \n \t \r \0 \\ and \xHH")
    return _ESCAPES[escape]


def _fixed(text: str) -> Piece:
    return lambda part, record: text


def _field(sign: str, text: Text) -> Piece:
    fields: dict[str, Piece] = {
        "t": lambda part, record: part.topic,
        "p": lambda part, record: str(part.partition),
        "o": lambda part, record: str(record.offset),
        "T": lambda part, record: str(record.timestamp),
        "k": lambda part, record: "" if record.key is None else text(record.key),
        "K": lambda part, record: _size(record.key, text),
        "v": lambda part, record: "" if record.value is None else text(record.value),
        "S": lambda part, record: _size(record.value, text),
        "h": lambda part, record: ",".join(
            f"{name}={'' if value is None else text(value)}" for name, value in record.headers
        ),
        "%": lambda part, record: "%",
    }
    fields["s"] = fields["v"]
    if sign not in fields:
        raise UsageError(f"--format has no %{sign}: it knows {_KNOWN}")
    return fields[sign]


def _size(data: Any, text: Text) -> str:
    if data is None:
        return "-1"
    return str(len(data if isinstance(data, bytes) else text(data).encode()))
