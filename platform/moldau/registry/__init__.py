"""A Schema Registry with Confluent's REST API. Its schemas are in a topic of a cluster.

    moldau registry start --bootstrap localhost:9092

It reaches the cluster only over the wire, so any Kafka will do. `store` is the fold over the topic,
`decisions` decides writes, `formats` knows Avro, JSON Schema and Protobuf; these do no IO. `log`
reads and writes the topic, `election` chooses the one instance that writes, `application` is the
REST API, and `server` joins them.
"""
