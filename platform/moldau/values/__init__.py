"""Values with schemas: Avro, Protobuf and JSON Schema. No IO, and no registry.

A folder a format knows how its schemas are parsed, printed and compared, whether a value fits one,
and how values become bytes, texts and columns. `wire` is Confluent's frame around them, `schema` a
schema as text, `failures` the errors. Serdes, the registry, Connect's converters and Spark use
these, and fetch schemas themselves: what a schema refers to is an argument here.
"""
