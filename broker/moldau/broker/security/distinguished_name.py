"""The name of a certificate's subject as Java writes it: `X500Principal.getName()`, RFC 2253.

ACLs of Kafka hold names in this form, so each character counts. Libraries for Python write other
forms: they know more attributes by name, and escape fewer characters.

Invariant: bytes that are no certificate raise MalformedMessage, and nothing beyond them is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.errors import MalformedMessage

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that Java writes by name in this form. Others are a number, and hex."""
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""The tags of the types that Java writes as text. It decodes all of them as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


class _Element(NamedTuple):
    """One element of DER."""

    tag: int
    content: memoryview
    whole: memoryview


def subject_name(certificate: bytes) -> str:
    """Return the name of the subject of a certificate in DER. Raise MalformedMessage."""
    outer = _only(memoryview(certificate))
    signed = _only(outer.content)
    fields = [each for each in _elements(signed.content, limit=6) if each.tag != _VERSION]
    if len(fields) < 5:
        raise MalformedMessage("the certificate has no subject")
    # serial number, signature, issuer, validity, subject
    return name_of(fields[4].whole)


def name_of(der: bytes | memoryview) -> str:
    """Return a distinguished name in DER as text."""
    sequence = _only(memoryview(der))
    if sequence.tag != _SEQUENCE:
        raise MalformedMessage("a name is not a sequence")
    parts = []
    for relative in _elements(sequence.content):
        if relative.tag != _SET:
            raise MalformedMessage("a part of a name is not a set")
        parts.append("+".join(_attribute(each) for each in _elements(relative.content)))
    return ",".join(reversed(parts))


def _attribute(element: _Element) -> str:
    fields = list(_elements(element.content))
    if len(fields) != 2 or fields[0].tag != _OBJECT_ID:
        raise MalformedMessage("an attribute of a name is not a pair")
    kind = _object_id(fields[0].content)
    value = fields[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escape(bytes(value.content).decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    escaped = "".join(
        f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text
    )
    lead = len(escaped) - len(escaped.lstrip(_BLANK))
    trail = len(escaped.rstrip(_BLANK))
    return "".join(
        f"\\{each}" if at < lead or at >= trail else each for at, each in enumerate(escaped)
    )


def _object_id(content: memoryview) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise MalformedMessage("an object id is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _only(data: memoryview) -> _Element:
    """Return the first element."""
    for element in _elements(data, limit=1):
        return element
    raise MalformedMessage("an element of DER is missing")


def _elements(data: memoryview, limit: int | None = None) -> Iterator[_Element]:
    """Yield the elements in DER, at most `limit`."""
    position = count = 0
    while position < len(data) and (limit is None or count < limit):
        start = position
        if len(data) - position < 2:
            raise MalformedMessage("an element of DER is cut off")
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            length = size & 0x7F
            size_bytes = data[position : position + length]
            if not 1 <= length <= 4 or len(size_bytes) < length:
                raise MalformedMessage("the size of an element of DER is not valid")
            size = int.from_bytes(size_bytes, "big")
            position += length
        if size > len(data) - position:
            raise MalformedMessage("an element of DER is cut off")
        end = position + size
        yield _Element(tag, data[position:end], data[start:end])
        position = end
        count += 1
