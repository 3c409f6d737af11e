"""The broker: log, replication, controller, coordinators and the APIs that clients see."""
