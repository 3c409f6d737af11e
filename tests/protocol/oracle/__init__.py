"""Proofs that our protocol codec writes and reads what Apache Kafka writes and reads.

Three witnesses, each independent of `moldau.protocol`:

- `second_codec`: a slow, plain walker of Kafka's schema files (needs the schemas);
- `kafka_java`: Kafka's own generated classes, asked through a small Java program (needs a JDK
  and Kafka's jars);
- `golden/`: what those classes answered, kept as data, for machines that have neither; renewed
  by `python -m tests.protocol.oracle.renew`.

A message value is a plain dict by schema field names here; `our_messages` turns it into an
instance of our class and back, and `kafka_json` into the JSON of Kafka's converters.
"""
