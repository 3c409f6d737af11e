"""Avro: schemas, and values that fit them. No IO."""
