"""Asking Java's own Properties what a text means, and the answers that were kept.

The kept answers are `java_properties.jsonl`: one text with Java's answer a line. To make them anew,
after texts were added here, run `python -m tests.config.java_properties` where there is a `java`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "PropertiesLines.java"
KEPT = Path(__file__).parent / "java_properties.jsonl"

# Texts in which the rules meet: each was chosen for one of them.
TEXTS = (
    *(
        "",
        "\n",
        " \t\f",
        "a=b",
        "a = b ",
        "a:b",
        "a b",
        "a\tb",
        "a\fb",
        "a",
        "=b",
        ":b",
        " =b",
        "==b",
    ),
    *("a==b", "a:=b", "a =: b", "a : = b", "a  b c", "a\\=b=c", "a\\:b:c", "a\\ b c", "a\\\\=b"),
    *("#c\na=1", "!c\na=1", " #c\na=1", "a=1 #no", "#c\\\na=1", "a=\\\n#b", "a=1\\\n", "a=1\\\n\n"),
    *(
        "a=1\\\n  2",
        "a=1\\\r\n\t2",
        "a=1\\\r2",
        "a=1\\\n\nb=2",
        "a=1\\\n   \nb=2",
        "a\\\n=1",
        "a\\\n b",
    ),
    *("\\", "\\\n", "\\\r", "\\\r\n", "\\\n\n", "\\\n ", "\\\n#c\na=1", "\\\n a=1", "\\\n\\\na=1"),
    *(
        "a=\\",
        "a=\\\\",
        "a=\\\\\\",
        "a=\\\\\\\nb",
        "a=\\t\\n\\r\\f",
        "a=\\q\\\"\\'",
        "a=\\ b",
        "a= \\ b",
    ),
    *(
        "a=\\u0041",
        "a=\\u00e9\\u20ac",
        "a=\\ud83d\\ude00",
        "a=\\u004",
        "a=\\u",
        "a=\\u00g1",
        "a=\\U0041",
    ),
    *(
        "a=\\uu0041",
        "\\u0061=1",
        "a\\u003db=1",
        "a=\\u0020b",
        "a=\\\\u0041",
        "a=\\u+041",
        "a=\\u 041",
    ),
    *(
        "a=1\na=2",
        "a=1\rb=2\r\nc=3\n\rd=4",
        "a=\u00e9\u20ac\U0001f600",
        "\u00a0a=1",
        "a=\u2028b",
        "a=\x0bb",
    ),
    *(
        "a=\x85b",
        "a=\x1cb",
        "a=\x00b",
        "  a  =  1  ",
        "a=1\\ \n",
        "a=1\\\t\nb",
        "log.dirs=/a,\\\n    /b",
    ),
    *(
        "#",
        "#\\",
        "!\\\n",
        "a=#b",
        "a=!b",
        "#a=1\\\nb=2",
        "a\\\n\\\n b",
        "a\\\n\n\nb",
        "a=\\\n\\\n1",
    ),
)

_ALPHABET = "\\\\\\\n\n\r\t\f  ==::##!!uabc0041dD8f\xe9\u2028\U0001f600"


@dataclass(frozen=True)
class Answer:
    """What Java says of `text`: None where it refuses, else pairs and the lines that it stores."""

    text: str
    pairs: dict[str, str] | None
    lines: list[str] | None


def random_texts(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    sizes = [source.randrange(1, 16) for _ in range(count)]
    return ["".join(source.choice(_ALPHABET) for _ in range(size)) for size in sizes]


def ask_java(texts: list[str]) -> list[Answer]:
    """One run of Java for all texts."""
    java = shutil.which("java")
    assert java is not None
    given = "".join(f"{_digits(text)}\n" for text in texts)
    run = subprocess.run(  # noqa: S603
        [java, "-Xshare:auto", str(PROGRAM)],
        input=given,
        capture_output=True,
        encoding="ascii",
        check=True,
        timeout=120,
    )
    lines = run.stdout.splitlines()
    assert len(lines) == len(texts)
    return [_answer(text, line) for text, line in zip(texts, lines, strict=True)]


def _answer(text: str, line: str) -> Answer:
    if line == "!":
        return Answer(text, None, None)
    pairs, _, stored = line.partition("|")
    split = (pair.partition(":") for pair in pairs.split())
    read = {_text(key): _text(value) for key, _, value in split}
    return Answer(text, read, [_text(each) for each in stored.split()])


def _digits(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-16-be", "surrogatepass")


def kept_answers() -> list[Answer]:
    lines = KEPT.read_text(encoding="ascii").splitlines()
    return [Answer(**json.loads(line)) for line in lines]


if __name__ == "__main__":
    answers = ask_java([*TEXTS, *random_texts(1, 300)])
    KEPT.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in answers), encoding="ascii")
