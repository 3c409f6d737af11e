"""The offsets that a group has committed, as `moldau group describe` shows them."""

from __future__ import annotations

from tests.cli.shell import Shell


def committed(shell: Shell, group: str) -> list[int | None]:
    """By partition."""
    (found,) = shell.good("group", "describe", group, "--json").json
    return [each["committed"] for each in found["offsets"]]
