"""The console: a cluster's topics, messages and groups as pages in a browser.

It uses the client like any other program, so it shows any Kafka. Pages are made on the server, by
Jinja; htmx replaces parts of them, and no part of the assets needs a build. Tables are paged here,
so that a cluster with 10,000 topics costs a browser no more than one with ten.
"""
