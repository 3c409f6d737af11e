"""Kafka Streams' own test driver as an oracle: the same scripts go to it and to ours."""
