"""The admin client: changes and describes a cluster, with one module for each kind of thing."""
