"""The client, from its cores to real brokers."""
