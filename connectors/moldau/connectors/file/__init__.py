"""File source and sink: Kafka's FileStream connectors, and what people miss in them.

The source follows growing files through rotation and reads lines, JSON lines, CSV and Parquet. The
sink appends to one file as Kafka's does, or writes many: rolled, partitioned by path, exactly-once.
"""
