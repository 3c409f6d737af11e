"""The admin client: what changes or describes a cluster, one module a noun."""
