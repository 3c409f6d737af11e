"""Rules and principals of Kerberos, and the users that Java makes of them.

    python -m tests.broker.security.short_names    # asks Java, and writes java_short_names.json

Java's answers are kept, so that a machine without Java compares with them too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent
KEPT: Final = FOLDER / "java_short_names.json"
PROGRAM: Final = FOLDER / "ShortNameAnswers.java"
RANDOM_CASES: Final = 4000

REALMS: Final = ("EXAMPLE.COM", "OTHER.ORG", "")
NAMES: Final = ("alice", "kafka", "App-Service", "x.y_z", "", "m\u00fcller", "aa", "\u0130d")
INSTANCES: Final = (None, None, "broker-1", "host.example.com", "", "admin")
FORMS: Final = (
    "1:$1", "1:$1@$0", "2:$1", "2:$1@$0", "2:$1/$2@$0", "2:$1-$2", "2:$2$2", "1:x$1y$0z", "3:$3",
    "0:x", "2:", "1:$0", "2:$01",
)  # fmt: skip
MATCHES: Final = (
    "", "", r".*@EXAMPLE\.COM", ".*", "[a-z]+", "alice|kafka", "a|aa", r"\w+", r"[^@]+@.*", "x?",
)  # fmt: skip
CHANGES: Final = (
    "", "", "s/@.*//", "s/a/b/", "s/a/b/g", "s/a*/X/g", "s/([a-z])([a-z]*)/$2$1/",
    "s/(.)(.)/$2$1/g", r"s/a/\$x/g", "s/(a)|(l)/<$1>/g", "s/(?<first>.)/${first}-/", "s/.*/$0$0/",
    "s/(.)/$12/", "s/^/pre-/g", "s/$/-post/", "s/[.-]/_/g", r"s/\W//g", "s/b/@/",
)  # fmt: skip
ENDS: Final = ("", "", "", "/L", "L", "/U", "U", "/")
REFUSED: Final = (
    "default", "DEFAULT ", "RULE", "RULE:[1:$1", "RULE:[:$1]", "RULE:[x:$1]", "RULE:[1:$1]x",
    "RULE:[1:$1](.*", "RULE:[1:$1](a(b))", "RULE:[1:$1]s/a/b", "RULE:[1:$1]s/a/b/gg",
    "RULE:[1:$1]/LU", "RULE:[1:$1]/X", " RULE:[1:$1]", "RULE:[1:$1]([)", "RULE:[1:$1]s/[/b/",
    "RULE:[99999999999:$1]", "",
)  # fmt: skip


class Case(NamedTuple):
    """One question."""

    realm: str
    rules: tuple[str, ...]
    principal: str

    @property
    def line(self) -> str:
        """The question to Java."""
        return "\t".join((self.realm, ";;".join(self.rules), self.principal))


def cases() -> Iterator[Case]:
    """Yield names that are malformed, rules that are refused, and random ones of both."""
    for principal in ("a", "a/b", "a@b@c", "a/b/c@EXAMPLE.COM", "@", "/@", "@EXAMPLE.COM"):
        yield Case("EXAMPLE.COM", ("DEFAULT",), principal)
    for rule in REFUSED:
        yield Case("EXAMPLE.COM", (rule,), "alice@EXAMPLE.COM")
    random = Random(42)
    for _ in range(RANDOM_CASES):
        rules = tuple(_rule(random) for _ in range(random.choice((1, 1, 2, 3))))
        yield Case(random.choice(REALMS[:2]), rules, _principal(random))


def _rule(random: Random) -> str:
    if random.random() < 0.15:
        return "DEFAULT"
    match = random.choice(MATCHES)
    part = f"({match})" if match else ""
    return f"RULE:[{random.choice(FORMS)}]{part}{random.choice(CHANGES)}{random.choice(ENDS)}"


def _principal(random: Random) -> str:
    instance = random.choice(INSTANCES)
    middle = "" if instance is None else f"/{instance}"
    return f"{random.choice(NAMES)}{middle}@{random.choice(REALMS)}"


def ask_java() -> list[str]:
    """Java's answer to each case: = and the user, or !."""
    from tests.peers.apache_kafka import fetch

    return fetch().run_source(PROGRAM, [each.line for each in cases()])


def kept() -> list[str]:
    found: list[str] = json.loads(KEPT.read_text(encoding="ascii"))
    return found


if __name__ == "__main__":
    KEPT.write_text(json.dumps(ask_java(), indent=0) + "\n", encoding="ascii")
