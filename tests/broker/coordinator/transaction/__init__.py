"""The core of the transaction coordinator."""
