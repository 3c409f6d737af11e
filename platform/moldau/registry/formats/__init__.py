"""What the registry knows of Avro, JSON Schema and Protobuf: their texts, and compatibility.

A module a format has a function that parses a schema; what it returns can print itself and compare
itself with an older schema. `table` chooses the module by the type of a schema.
"""
