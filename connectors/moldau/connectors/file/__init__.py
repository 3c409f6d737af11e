"""File source and sink: Kafka's FileStream connectors, with common missing features added.

The source follows growing files through rotation and reads lines, JSON lines, CSV and Parquet. The
sink appends to one file as Kafka's does, or writes many: rolled, partitioned by path, exactly-once.
"""
