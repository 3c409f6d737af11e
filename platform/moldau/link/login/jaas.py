"""`sasl.jaas.config`: logins in the syntax of Java's login modules. No IO.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="x";

No class is loaded: the modules that Kafka brings are known by name, any other is refused.

Invariant: no error shows a part of the text, as it has passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError

_PACKAGE: Final = "org.apache.kafka.common.security."
MODULES: Final[Mapping[str, str]] = {
    f"{_PACKAGE}plain.PlainLoginModule": "PLAIN",
    f"{_PACKAGE}scram.ScramLoginModule": "SCRAM",
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
    "com.sun.security.auth.module.Krb5LoginModule": "GSSAPI",
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = deferred_pattern(
    r"""\s*(?: (?P<quoted> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
          | (?P<mark> [=;] )
          | (?P<word> [^\s=;"']+ ) )""",
    re.VERBOSE,
)
_PLAIN_NAME: Final = deferred_pattern(r"[A-Za-z][A-Za-z0-9_.]*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_SYNTAX: Final = (
    "write it as Java does: org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="..." password="...";'
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login: the family of mechanisms (PLAIN, SCRAM, OAUTHBEARER, GSSAPI), and its options."""

    family: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """Return the only login of the text. Raise ConfigError that names the setting."""
    words = _words(text, setting)
    if len(words) < 3 or words[-1] != (";", True):
        raise ConfigError(f"it does not end with a semicolon: {_SYNTAX}", setting=setting)
    if (";", True) in words[:-1]:
        raise ConfigError("it has more than one login module", setting=setting)
    family = MODULES.get(words[0][0])
    if family is None:
        raise ConfigError(
            "its login module is not known; Kafka's are", setting=setting, allowed=list(MODULES)
        )
    if words[1][0].lower() not in _FLAGS:
        raise ConfigError(f"'required' is missing behind the module: {_SYNTAX}", setting=setting)
    return LoginModule(family, _options(words[2:-1], setting))


def write_jaas(module: LoginModule) -> str:
    """Return the text of a login, which `parse_jaas` reads as the same one."""
    name = next(name for name, family in MODULES.items() if family == module.family)
    options = (f" {_name(each)}={_quoted(value)}" for each, value in module.options.items())
    return f"{name} required{''.join(options)};"


def jaas_section(text: str, section: str, setting: str) -> tuple[str, dict[str, str]]:
    """Return the module and the options of a section of a JAAS file, as `KafkaConnect { ... };`.
    Raise ConfigError if it is missing or has several modules."""
    found = re.search(rf"(?m)^\s*{re.escape(section)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    words = [] if found is None else _words(found[1], setting)
    if len(words) < 3 or words[-1] != (";", True) or (";", True) in words[:-1]:
        raise ConfigError(
            f"the file needs one login module in a section {section} {{ MODULE required ...; }};",
            setting=setting,
        )
    return words[0][0], _options(words[2:-1], setting)


def _words(text: str, setting: str) -> list[tuple[str, bool]]:
    """Return the words, each with whether it is a mark."""
    words = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(f"a quotation mark is not closed: {_SYNTAX}", setting=setting)
        position = found.end()
        if found["quoted"] is not None:
            words.append((_unquoted(found["quoted"]), False))
        elif found["mark"] is not None:
            words.append((found["mark"], True))
        else:
            words.append((found["word"], False))
    return words


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _name(text: str) -> str:
    return text if _PLAIN_NAME.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _options(words: list[tuple[str, bool]], setting: str) -> dict[str, str]:
    options = {}
    for at in range(0, len(words), 3):
        part = words[at : at + 3]
        if len(part) != 3 or part[1] != ("=", True) or part[0][1] or part[2][1]:
            raise ConfigError(f"an option is not name=value: {_SYNTAX}", setting=setting)
        options[part[0][0]] = part[2][0]
    return options
