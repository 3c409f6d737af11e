"""Apache Kafka and ours, asked the same: README.md says how to add a case."""
