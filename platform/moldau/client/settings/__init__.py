"""What clients are given: settings by Kafka's names, arguments, and code of the user's."""
