r"""Java's regular expressions in terms of Python's.

`compiled(pattern)` matches what `java.util.regex` matches, `Replacement` fills in `$1`, `${name}`
and `\$` as `Matcher.replaceFirst` does. Both syntaxes agree for the most part; what differs is
translated: named groups, `\Q..\E`, `\p{..}`, `\h`, `\R`, `\z`, nested and intersected character
classes, flags in the middle. `\d`, `\w`, `\s` and `(?i)` mean ASCII, as Java has it by default.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_POSIX: Mapping[str, str] = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "IsDigit": "Nd",
    "IsAlphabetic": "L",
    "IsLetter": "L",
    "IsLowercase": "Ll",
    "IsUppercase": "Lu",
    "IsPunctuation": "P",
    "javaLowerCase": "Ll",
    "javaUpperCase": "Lu",
}
_HORIZONTAL = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\f\r\x85\u2028\u2029"
_NO_LINE_END = r"[^\n\r\x85\u2028\u2029]"
_CATEGORY = re.compile(r"(?:Is)?(L|M|N|P|S|Z|C|[LMNPSZC][a-z])")
_FLAGS = re.compile(r"\(\?([imsxudU]*)(?:-([imsxudU]*))?([:)])")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


class PatternError(ValueError):
    """A pattern that Java would reject, or that cannot be translated."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern for Python. Raise PatternError if it is invalid."""
    try:
        return re.compile(_Translation(pattern).text(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{pattern!r} is not a regular expression: {error}") from None


class Replacement:
    """A replacement text with references to groups."""

    def __init__(self, template: str, pattern: re.Pattern[str]) -> None:
        self._parts: list[str | int] = []
        self._pattern = pattern
        rest, at = template, 0
        while at < len(rest):
            sign = rest[at]
            if sign == "\\":
                if at + 1 == len(rest):
                    raise PatternError(f"the replacement {template!r} ends with a backslash")
                self._literal(rest[at + 1])
                at += 2
            elif sign == "$":
                at = self._group(template, at + 1)
            else:
                self._literal(sign)
                at += 1

    def _literal(self, text: str) -> None:
        if self._parts and isinstance(self._parts[-1], str):
            self._parts[-1] += text
        else:
            self._parts.append(text)

    def _group(self, template: str, at: int) -> int:
        if template[at : at + 1] == "{":
            name = _NAME.match(template, at + 1)
            if name is None or template[name.end() : name.end() + 1] != "}":
                raise PatternError(f"the replacement {template!r} has a bad group name")
            if name.group() not in self._pattern.groupindex:
                raise PatternError(f"no group {name.group()!r} for the replacement {template!r}")
            self._parts.append(self._pattern.groupindex[name.group()])
            return name.end() + 1
        if not template[at : at + 1].isdigit():
            raise PatternError(f"the replacement {template!r} has a $ without a group; write \\$")
        number, at = int(template[at]), at + 1
        if number > self._pattern.groups:
            raise PatternError(f"no group {number} for the replacement {template!r}")
        while template[at : at + 1].isdigit():
            longer = number * 10 + int(template[at])
            if longer > self._pattern.groups:
                break
            number, at = longer, at + 1
        self._parts.append(number)
        return at

    def first(self, text: str) -> str:
        """Return `text` with the first match replaced."""
        match = self._pattern.search(text)
        if match is None:
            return text
        filled = (
            part if isinstance(part, str) else (match.group(part) or "") for part in self._parts
        )
        return text[: match.start()] + "".join(filled) + text[match.end() :]


class _Translation:
    """One pass over a pattern. `_scopes` has, for each open group, the flags that were set in its
    middle: they are valid until it closes, across every `|`."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._scopes: list[list[str]] = [[]]
        self._dots: list[bool] = [False]

    def text(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        if len(self._scopes) > 1:
            raise PatternError(f"{self._pattern!r}: a group is not closed")
        self._out.append(_closed(self._scopes[0]))
        return "".join(self._out)

    def _step(self) -> None:
        sign = self._pattern[self._at]
        if sign == "\\":
            self._out.append(self._escape(in_class=False))
        elif sign == "[":
            self._out.append(self._class())
        elif sign == "(":
            self._open()
        elif sign == ")":
            if len(self._scopes) == 1:
                raise PatternError(f"{self._pattern!r}: an unmatched ')'")
            self._dots.pop()
            self._out.append(_closed(self._scopes.pop()) + ")")
            self._at += 1
        elif sign == "|":
            flags = self._scopes[-1]
            self._out.append(_closed(flags) + "|" + "".join(f"(?{flag}:" for flag in flags))
            self._at += 1
        else:
            self._out.append(_NO_LINE_END if sign == "." and not self._dots[-1] else sign)
            self._at += 1

    def _open(self) -> None:
        flags = _FLAGS.match(self._pattern, self._at)
        if flags is not None:
            self._flags(flags)
            return
        self._scopes.append([])
        self._dots.append(self._dots[-1])
        if self._pattern.startswith("(?<", self._at) and self._next(3) not in ("=", "!"):
            self._out.append("(?P<")
            self._at += 3
        else:
            self._out.append("(")
            self._at += 1

    def _flags(self, found: re.Match[str]) -> None:
        on, off = (
            "".join(sign for sign in found.group(each) or "" if sign in "imsx") for each in (1, 2)
        )
        self._at = found.end()
        setting = on + (f"-{off}" if off else "")
        dot = (self._dots[-1] or "s" in on) and "s" not in off
        if found.group(3) == ":":
            self._scopes.append([])
            self._dots.append(dot)
            self._out.append(f"(?{setting}:")
        else:
            self._dots[-1] = dot
            if setting:
                self._scopes[-1].append(setting)
                self._out.append(f"(?{setting}:")

    def _next(self, ahead: int) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _escape(self, *, in_class: bool) -> str:
        """Return the translation of the escape at the cursor; inside a class, without brackets."""
        sign = self._next(1)
        start, self._at = self._at, self._at + 2
        if sign == "":
            raise PatternError(f"{self._pattern!r} ends with a backslash")
        if sign == "Q":
            end = self._pattern.find("\\E", self._at)
            end = len(self._pattern) if end < 0 else end
            quoted = self._pattern[self._at : end]
            self._at = end + 2
            return re.escape(quoted)
        if sign in "pP":
            return self._property(sign == "P", in_class)
        if sign in "xu0ce":
            return self._character(sign)
        if sign == "k" and not in_class:
            end = self._pattern.find(">", start)
            self._at = end + 1
            return f"(?P={self._pattern[start + 3 : end]})"
        return _escaped(sign, in_class, self._pattern)

    def _property(self, negated: bool, in_class: bool) -> str:
        if self._next(0) == "{":
            end = self._pattern.find("}", self._at)
            if end < 0:
                raise PatternError(f"{self._pattern!r}: a property is not closed")
            name, self._at = self._pattern[self._at + 1 : end], end + 1
        else:
            name, self._at = self._next(0), self._at + 1
        members = _POSIX.get(name, name)
        category = _CATEGORY.fullmatch(members)
        if category is not None:
            members = _category(category.group(1))
        elif name not in _POSIX:
            raise PatternError(f"{self._pattern!r}: the property {name!r} is not known")
        if not in_class:
            return f"[{'^' if negated else ''}{members}]"
        return _complement(members) if negated else members

    def _character(self, sign: str) -> str:
        if sign == "e":
            return r"\x1b"
        if sign == "c":
            code = ord(self._next(0) or "\0") ^ 64
            self._at += 1
            return re.escape(chr(code))
        if sign == "x" and self._next(0) == "{":
            end = self._pattern.find("}", self._at)
            digits, self._at = self._pattern[self._at + 1 : end], end + 1
        elif sign == "0":
            found = re.compile(r"[0-3]?[0-7]{1,2}").match(self._pattern, self._at)
            if found is None:
                raise PatternError(f"{self._pattern!r}: a bad octal escape")
            self._at = found.end()
            return re.escape(chr(int(found.group(), 8)))
        else:
            length = 2 if sign == "x" else 4
            digits = self._pattern[self._at : self._at + length]
            self._at += length
        try:
            return re.escape(chr(int(digits, 16)))
        except (ValueError, OverflowError):
            raise PatternError(f"{self._pattern!r}: a bad character escape") from None

    def _class(self) -> str:
        """Return a character class with all nested ones; the cursor is at its `[`."""
        self._at += 1
        negated = self._next(0) == "^"
        self._at += negated
        parts, is_first = [_Members()], True
        while True:
            sign = self._next(0)
            if sign == "":
                raise PatternError(f"{self._pattern!r}: a character class is not closed")
            if sign == "]" and not (is_first and parts[-1].is_empty):
                self._at += 1
                break
            is_first = False
            if sign == "[":
                parts[-1].nested.append(self._class())
            elif self._pattern.startswith("&&", self._at):
                self._at += 2
                parts.append(_Members())
            elif sign == "\\":
                parts[-1].simple += self._escape(in_class=True)
            else:
                parts[-1].simple += "\\" + sign if sign in "[]^&~|" else sign
                self._at += 1
        return _joined([part for part in parts if not part.is_empty], negated)


def _closed(flags: list[str]) -> str:
    """Close the groups that flags opened; for `x` on a new line, because `x` allows comments."""
    return "".join("\n)" if "x" in flag else ")" for flag in flags)


class _Members:
    """The members of a class between two `&&`."""

    def __init__(self) -> None:
        self.simple = ""
        self.nested: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.simple and not self.nested

    def text(self) -> str:
        if not self.nested:
            return f"[{self.simple}]"
        return f"(?:{'|'.join([f'[{self.simple}]'] * bool(self.simple) + self.nested)})"


def _joined(parts: list[_Members], negated: bool) -> str:
    if len(parts) == 1 and not parts[0].nested:
        return f"[{'^' if negated else ''}{parts[0].simple}]"
    *conditions, last = (part.text() for part in parts)
    every = "".join(f"(?={condition})" for condition in conditions) + last
    return rf"(?:(?!{every})[\s\S])" if negated else f"(?:{every})"


def _escaped(sign: str, in_class: bool, pattern: str) -> str:
    classes = {"h": _HORIZONTAL, "v": _VERTICAL}
    if sign.lower() in classes:
        members = classes[sign.lower()]
        if in_class:
            return members if sign.islower() else _complement(members)
        return f"[{'' if sign.islower() else '^'}{members}]"
    if not in_class:
        outside = {"R": rf"(?:\r\n|[{_VERTICAL}])", "z": r"\Z", "Z": r"(?=\n?\Z)"}
        if sign in outside:
            return outside[sign]
    if sign.isalpha() and sign not in "dDwWsSbBAtnrfa":
        raise PatternError(f"{pattern!r}: \\{sign} is not supported")
    return "\\" + sign if sign.isalnum() else re.escape(sign)


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    """Return the members of a Unicode general category, as ranges for a character class."""
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


@lru_cache(maxsize=64)
def _complement(members: str) -> str:
    """Return every character that is not among these, as members of a class."""
    pattern, ranges, start = re.compile(f"[{members}]"), [], None
    for code in range(sys.maxunicode + 2):
        is_outside = code <= sys.maxunicode and pattern.match(chr(code)) is None
        if is_outside and start is None:
            start = code
        elif not is_outside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(ranges)
