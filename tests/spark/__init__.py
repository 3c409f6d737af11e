"""The PySpark data source."""
