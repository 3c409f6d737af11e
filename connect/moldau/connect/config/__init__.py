"""Settings of plugins: one pydantic model a plugin says everything about them.

`model` has the base class and the fields, `kinds` how texts become values, `infos` the answers of
the REST API (ConfigInfos), `connectors` the settings that every connector has, `warnings` what is
likely a mistake, `reference` the page for the docs.
"""
