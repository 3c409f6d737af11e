"""The settings of the clients, by Kafka's names."""
