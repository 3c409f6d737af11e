"""Profiles: named clusters with their settings, in a file of the user that only they may read.

    ~/.config/moldau/profiles.json    or under $XDG_CONFIG_HOME

Which profile counts: that of `--profile`, else of $MOLDAU_PROFILE (empty: none), else the one in
use. Explicit options win over each of its settings. A profile that is merely in use does not count
at all where an option or a variable names a cluster: its passwords are for its own cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError

VARIABLE: Final = "MOLDAU_PROFILE"
_FILE: Final = "profiles.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """One cluster: client settings by Kafka's names, and the URLs of what belongs to it."""

    settings: dict[str, str] = field(default_factory=dict)
    registry: str | None = None
    connect: str | None = None


@dataclass(slots=True)
class Profiles:
    """All profiles of a user, and the name of the one in use."""

    used: str | None = None
    by_name: dict[str, Profile] = field(default_factory=dict)

    def named(self, name: str) -> Profile:
        """Return the profile. Raise ConfigError, which names the nearest one."""
        from difflib import get_close_matches

        found = self.by_name.get(name)
        if found is None:
            near = get_close_matches(name, self.by_name, n=1)
            hint = f"did you mean {near[0]}?" if near else "moldau profile list shows them"
            raise ConfigError(f"there is no profile {name}; {hint}")
        return found


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profile that counts for a command. `is_asked_for`: by an option or the variable."""

    name: str
    profile: Profile
    is_asked_for: bool


NONE: Final = ProfileChoice("", Profile(), False)


def chosen(environment: Mapping[str, str], given: str | None) -> ProfileChoice:
    """Return the profile that counts; NONE if none does. Raise ConfigError if it does not exist."""
    asked = environment.get(VARIABLE) if given is None else given
    if asked == "":
        return NONE
    path = path_of(environment)
    if path is None:
        if asked is None:
            return NONE
        raise ConfigError("profiles are in the user's home, and neither HOME nor XDG_CONFIG_HOME "
                          "names it")  # fmt: skip
    if asked is None and not _exists(path):
        return NONE
    profiles = load(path)
    name = profiles.used if asked is None else asked
    if name is None:
        return NONE
    return ProfileChoice(name, profiles.named(name), asked is not None)


def path_of(environment: Mapping[str, str]) -> str | None:
    """Return the path of the user's file; None if the environment names no home."""
    folder = environment.get("XDG_CONFIG_HOME") or ""
    if not folder.startswith("/"):
        home = environment.get("HOME") or environment.get("USERPROFILE") or ""
        if not home:
            return None
        folder = f"{home}/.config"
    return f"{folder}/moldau/{_FILE}"


def load(path: str) -> Profiles:
    """Return the profiles of the file; none if it does not exist. Raise ConfigError."""
    from moldau.runtime.real_files import RealFiles

    if not _exists(path):
        return Profiles()
    try:
        document = json.loads(RealFiles().read_text(path))
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise ConfigError(f"{path}: is no file of profiles of version {_VERSION}")
    try:
        by_name = {name: _profile(each) for name, each in document["profiles"].items()}
        used = document.get("used")
        if used is not None and not isinstance(used, str):
            raise TypeError("used")
        return Profiles(used if used in by_name else None, by_name)
    except (AttributeError, KeyError, TypeError):
        raise ConfigError(f"{path}: is no file of profiles: moldau profile writes it") from None


def _profile(document: Mapping[str, Any]) -> Profile:
    settings, urls = document["settings"], (document.get("registry"), document.get("connect"))
    texts = [*settings.values(), *(each for each in urls if each is not None)]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a setting is no text")
    return Profile(dict(settings), *urls)


def save(path: str, profiles: Profiles) -> None:
    """Write the file in one step; only its owner may read it."""
    from moldau.runtime.places import make_private_directory, process_id, write_private_text
    from moldau.runtime.real_files import RealFiles

    document = {
        "version": _VERSION,
        "used": profiles.used,
        "profiles": {
            name: {"settings": each.settings, "registry": each.registry, "connect": each.connect}
            for name, each in sorted(profiles.by_name.items())
        },
    }
    make_private_directory(path.rpartition("/")[0])
    new = f"{path}.{process_id()}"
    files = RealFiles()
    if files.exists(new):
        files.remove(new)
    write_private_text(new, json.dumps(document, indent=2) + "\n")
    files.rename(new, path)


def _exists(path: str) -> bool:
    from moldau.runtime.real_files import RealFiles

    return RealFiles().exists(path)
