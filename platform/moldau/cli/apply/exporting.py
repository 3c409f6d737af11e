"""Writes a document as YAML that `moldau apply` reads to the same values.

Numbers and booleans stand without quotes, because a document's scalars are texts anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_PLAIN: Final = re.compile(r"-?(0|[1-9]\d{0,17})|true|false")
_WIDTH: Final = 100


def to_yaml(sections: Mapping[str, Any]) -> str:
    """Return the text of a document."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, indentless=False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        kind = "tag:yaml.org,2002:"
        if _PLAIN.fullmatch(value):
            number = "bool" if value in ("true", "false") else "int"
            return dumper.represent_scalar(f"{kind}{number}", value)
        return dumper.represent_scalar(f"{kind}str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return "\n".join(
        yaml.dump(
            {name: section},
            Dumper=Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
            default_flow_style=False,
        )
        for name, section in sections.items()
    )
