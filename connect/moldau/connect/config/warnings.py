"""Finds likely mistakes that are no errors, such as a key that nothing reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from moldau.connect.config.model import Problem


def unknown_keys(
    keys: Iterable[str], known: Iterable[str], open_prefixes: Iterable[str] = ()
) -> Iterator[Problem]:
    """Yield a warning for each key that is not known and has no open prefix."""
    names, prefixes = sorted(set(known)), tuple(open_prefixes)
    for key in keys:
        if key in names or (prefixes and key.startswith(prefixes)):
            continue
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        yield Problem(key, f'Nothing reads the configuration "{key}"{hint}')
