"""The types of client settings with choices, for tests that run with each of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

GroupProtocol: TypeAlias = Literal["classic", "consumer"]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
