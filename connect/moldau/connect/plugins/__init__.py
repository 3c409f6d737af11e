"""Connect's plugins: find them by the names in configs, validate configs, and create instances.

catalogue = Catalogue.installed()
catalogue.find(PluginKind.CONNECTOR, "io.confluent.connect.jdbc.JdbcSinkConnector")
validate(catalogue, config).to_json()
transformation_stages(catalogue, config)
"""

from __future__ import annotations

from moldau.connect.plugins.catalogue import (
    BrokenPlugin,
    Catalogue,
    InstalledPlugin,
    PluginKind,
    PluginNotFound,
)
from moldau.connect.plugins.stages import (
    TransformationStage,
    new_connector,
    new_converter,
    new_header_converter,
    transformation_stages,
)
from moldau.connect.plugins.validation import validate

__all__ = [
    "BrokenPlugin", "Catalogue", "InstalledPlugin", "PluginKind", "PluginNotFound",
    "TransformationStage", "new_connector", "new_converter", "new_header_converter",
    "transformation_stages", "validate",
]  # fmt: skip
