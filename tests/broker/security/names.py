"""Distinguished names in DER, and what Java makes of them.

    python -m tests.broker.security.names    # asks Java again, and writes java_names.json

Java's answers are kept, so that a machine without Java compares with them too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
KEPT: Final = FOLDER / "java_names.json"
PROGRAM: Final = FOLDER / "NameAnswers.java"

UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, UNIVERSAL, NUMERIC = (
    0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C, 0x12,
)  # fmt: skip
KINDS: Final = (
    "2.5.4.3", "2.5.4.4", "2.5.4.5", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10",
    "2.5.4.11", "2.5.4.12", "2.5.4.17", "2.5.4.42", "2.5.4.43", "2.5.4.44", "2.5.4.46",
    "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1",
    "1.3.6.1.4.1.311.60.2.1.3", "2.999.1234567",
)  # fmt: skip
TEXTS: Final = (
    "broker", "a,b", "a=b", "a+b", 'say "hi"', "back\\slash", "<tag>", "#hash", "in#side", "a;b",
    " lead", "trail ", "  both  ", " ", "", "two  blanks", "\rreturn\r", "tab\tin", "nul\0in",
    "M\u00fcller", "\u6771\u4eac", "smile \U0001f600", "star*", "(paren)", "q?", "a/b:c'd.e-f_g",
    "new\nline", "\u00a0space", "user@example.com", "$1",
)  # fmt: skip


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def object_id(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    content = b""
    for number in (first * 40 + second, *others):
        part = [number & 0x7F]
        while number := number >> 7:
            part.append(number & 0x7F | 0x80)
        content += bytes(reversed(part))
    return der(0x06, content)


def attribute(kind: str, text: str, tag: int = UTF8) -> bytes:
    encoding = {BMP: "utf-16-be", UNIVERSAL: "utf-32-be", T61: "latin-1"}.get(tag, "utf-8")
    return der(0x30, object_id(kind) + der(tag, text.encode(encoding)))


def name(*relatives: tuple[bytes, ...]) -> bytes:
    return der(0x30, b"".join(der(0x31, b"".join(each)) for each in relatives))


def names() -> Iterator[bytes]:
    """Every text in a common name, every attribute, every type of text, and several of each."""
    for text in TEXTS:
        yield name((attribute("2.5.4.3", text),))
        yield name((attribute("2.5.4.6", "US"),), (attribute("2.5.4.10", text),))
    for kind in KINDS:
        yield name((attribute(kind, "value"),))
        yield name((attribute(kind, "M\u00fcller, x "),), (attribute("2.5.4.3", "a"),))
    for tag in (UTF8, PRINTABLE, T61, IA5, GENERAL, NUMERIC):
        yield name((attribute("2.5.4.3", "123 45", tag),))
    for text in ("abc", "M\u00fcller", "a,b"):
        yield name((attribute("2.5.4.3", text, T61),))
        yield name((attribute("2.5.4.3", text, BMP),))
    yield name()
    yield name(
        (attribute("2.5.4.3", "a"), attribute("2.5.4.11", "b")), (attribute("2.5.4.6", "C"),)
    )
    yield name((attribute("2.5.4.11", "b"), attribute("2.5.4.3", "a")))
    yield name(*((attribute("0.9.2342.19200300.100.1.25", each, IA5),) for each in ("com", "x")))
    yield name((attribute("2.5.4.3", "x" * 300),))


def ask_java() -> dict[str, str]:
    """Java's text for each name in hex."""
    from tests.peers.apache_kafka import fetch

    asked = [each.hex() for each in names()]
    answers = fetch().run_source(PROGRAM, asked)
    texts = [bytes.fromhex(each).decode() for each in answers]
    return dict(zip(asked, texts, strict=True))


def kept() -> dict[str, str]:
    found: dict[str, str] = json.loads(KEPT.read_text(encoding="ascii"))
    return found


if __name__ == "__main__":
    KEPT.write_text(json.dumps(ask_java(), indent=0) + "\n", encoding="ascii")
