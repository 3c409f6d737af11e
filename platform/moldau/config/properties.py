r"""Java's `.properties` text, read and written exactly as `java.util.Properties` does.

    # comment          ! comment
    key=value          key : value        key value
    long = a, \
           b           (a line that ends in an odd number of backslashes continues on the next)
    caf\u00e9 = \t tab, \\ backslash

Surprising rules that are kept from Java: the last of two equal keys wins, blanks before a value are
removed but those after it stay, an unknown escape is the character itself, and a comment line is
never continued. There are two differences: a lone surrogate, which has no UTF-8 form, is rejected,
and errors have a place. Text comes in as `str`: Kafka reads its files as Latin-1; we read them as
UTF-8 if they are valid UTF-8, otherwise as Latin-1 (`load_file`); ASCII files are the same in both.

No library is used, because javaproperties reads some files differently from Java (a comment after
an empty continued line becomes a key), writes other escapes, and does not say where an error is;
tests/config/test_properties.py compares it and this module with Java's own results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import NoReturn

from moldau.config.given import GivenValue, Layer, Source, SourceKind
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError

_BLANKS = " \t\f"
_LINE = deferred_pattern(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
# Possessive: backtracking could never match, and remembering each character costs memory.
_KEY_END = deferred_pattern(r"(?:[^\\=: \t\f]++|\\.)*+", re.DOTALL)
_VALUE_START = deferred_pattern(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = deferred_pattern(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PAIR = deferred_pattern("([\ud800-\udbff])([\udc00-\udfff])")
_LONE = deferred_pattern("[\ud800-\udfff]")
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_ESCAPED.update({sign: "\\" + sign for sign in "=:#!"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with its value and the range of its lines, counted from 1, both inclusive."""

    key: str
    value: str
    line: int
    last_line: int


class _LogicalLine:
    """The joined text of a line that continues over several lines of the file. Their lengths and
    positions are not stored, since there may be as many lines as letters: `place` counts them
    again."""

    def __init__(self, file_text: str) -> None:
        self.length = 0
        self.first_line = 0
        self.last_line = 0
        self._file_text = file_text
        self._begin = 0
        self._joined = StringIO()

    def append(self, piece: str, line: int, begin: int) -> None:
        """Add `piece`, the content of the line with that number, which begins at `begin`."""
        if not self.first_line:
            self.first_line, self._begin = line, begin
        self._joined.write(piece)
        self.length += len(piece)
        self.last_line = line

    @property
    def text(self) -> str:
        return self._joined.getvalue()

    def place(self, position: int) -> tuple[int, int]:
        """Return the line and column, from 1, of the character at `position`."""
        lines = _LINE.finditer(self._file_text, self._begin)
        for number, match in enumerate(lines, self.first_line):
            piece = match[1].lstrip(_BLANKS)
            size = len(piece) - _goes_on(piece)
            if position < size or number == self.last_line:
                return number, len(match[1]) - len(piece) + 1 + position
            position -= size
        raise AssertionError("a logical line ends with a line")


def parse_properties(text: str, file: str = "<text>") -> list[Entry]:
    """Return all entries in order, with duplicates. Raise ConfigError with file, line, column."""
    return [_entry(line, file) for line in _logical_lines(text)]


def load_properties(text: str, file: str = "<text>") -> Layer:
    """Return the entries as given settings."""
    return tuple(
        GivenValue(entry.key, entry.value, Source(SourceKind.FILE, file, entry.line))
        for entry in parse_properties(text, file)
    )


def _logical_lines(text: str) -> Iterator[_LogicalLine]:
    logical = _LogicalLine(text)
    for number, match in enumerate(_LINE.finditer(text), start=1):
        natural, ending = match[1], match[2]
        piece = natural.lstrip(_BLANKS)
        if not logical.length and (not piece or piece[0] in "#!"):
            continue
        goes_on = _goes_on(piece)
        logical.append(piece[:-1] if goes_on else piece, number, match.start())
        # At the very end of a file, Java's reader returns a lone backslash as an empty entry,
        # unless a two-character line ending follows it.
        at_end = match.end() == len(text) and len(ending) < 2
        if not goes_on or at_end:
            yield logical
            logical = _LogicalLine(text)
        elif not logical.length:
            logical = _LogicalLine(text)
    if logical.length:
        yield logical


def _entry(line: _LogicalLine, file: str) -> Entry:
    text = line.text
    key_match = _KEY_END.match(text)
    assert key_match is not None
    value_match = _VALUE_START.match(text, key_match.end())
    assert value_match is not None
    key = _unescape(line, text[: key_match.end()], 0, file)
    value = _unescape(line, text[value_match.end() :], value_match.end(), file)
    return Entry(key, value, line.first_line, line.last_line)


def _unescape(line: _LogicalLine, text: str, start: int, file: str) -> str:
    """Return the part of `line` that begins at `start`, with its escapes replaced."""

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            place = line.place(start + match.start())
            _refuse("a \\u escape needs four hexadecimal digits", file, place)
        return _UNESCAPED.get(escape, escape)

    plain = _PAIR.sub(_join_pair, _ESCAPE.sub(replace, text)) if "\\" in text else text
    if _LONE.search(plain) is not None:
        _refuse("half of a surrogate pair is no character", file, line.place(start))
    return plain


def _join_pair(match: re.Match[str]) -> str:
    high, low = ord(match[1]), ord(match[2])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _refuse(reason: str, file: str, place: tuple[int, int]) -> NoReturn:
    raise ConfigError(reason, file=file, line=place[0], column=place[1])


def format_entry(key: str, value: str) -> str:
    """Return one line without its ending, as `Properties.store` writes it: ASCII only."""
    blank = "\\ " if value.startswith(" ") else ""
    rest = value[1:] if blank else value
    return f"{_escape(key).replace(' ', chr(92) + ' ')}={blank}{_escape(rest)}"


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(sign) or _escape_foreign(sign) for sign in text)


def _escape_foreign(sign: str) -> str:
    if " " <= sign <= "~":
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{pair.hex().upper()}" for pair in pairs)


def format_properties(values: Mapping[str, str], comments: Iterable[str] = ()) -> str:
    """Return a whole file: comments first, then one line for each entry, in the mapping's order."""
    lines = [f"# {line}" for comment in comments for line in (comment.splitlines() or [""])]
    lines += [format_entry(key, value) for key, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _goes_on(line: str) -> bool:
    """Whether `line` ends in an odd number of backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
