"""The settings of the broker against Kafka's own, and what they mean together."""
