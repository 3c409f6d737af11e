"""`moldau connect`: workers, and what people do to connectors over the REST API."""
