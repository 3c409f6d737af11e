"""Where `moldau dev` keeps its data, in the folder of the project."""

from __future__ import annotations

from typing import Final

DIRECTORY: Final = ".moldau/dev"
"""Everything, unless `--dir` says otherwise."""
PIPELINE: Final = "pipeline"
"""The folder in it with the data of a pipeline."""
