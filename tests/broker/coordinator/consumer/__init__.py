"""Consumer groups (KIP-848), played against our group and against Apache Kafka."""
