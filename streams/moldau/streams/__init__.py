"""The Streams DSL: topologies, state and the engines that run them."""
