"""JSON Schema: schemas, and values that fit them. No IO."""
