"""Tables in the files of a lake, which streams join: Delta, Iceberg and Parquet."""
