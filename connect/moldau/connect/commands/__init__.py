"""`moldau connect`: runs workers, and manages connectors over the REST API."""
