"""Where the checkpoint of an app on Spark is."""

from __future__ import annotations

import posixpath

from moldau.connect.installed.plugins import resolved
from moldau.pipeline.data_directory import DataDirectory
from moldau.pipeline.pipeline import CHECKPOINT, App
from moldau.pipeline.references import provider_settings, references_in


def checkpoint_of(app: App, data: DataDirectory, directory: str) -> str:
    """Return the path of its checkpoint. Relative ones count from `directory`, that of the file."""
    given = {CHECKPOINT: app.settings[CHECKPOINT]} if app.settings.get(CHECKPOINT) else {}
    own, _ = resolved(given, provider_settings(references_in(given.values())))
    found = own.get(CHECKPOINT) or data.path("apps", app.name)
    return posixpath.join(directory, found.removeprefix("file://"))
