"""Settings of plugins: one pydantic model for each plugin defines all about them.

`model` has the base class and the fields, `kinds` the conversion of texts to values, `infos` the
answers of the REST API (ConfigInfos), `connectors` the settings that every connector has, and
`warnings` finds likely mistakes.
"""
