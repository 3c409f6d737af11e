"""The requests of clients: one module for each API, with a function of the node and one request.

- what a handler works with     `node.Node`
- what it gets                  `request.ApiRequest`
- which module serves which key `handlers.HANDLERS`
- what the network layer calls  `service.BrokerService`

A handler is `def serve(node, request) -> None`, called on the event loop in the order of arrival.
It never blocks: it answers at once, or it keeps the request and answers in a later callback.
"""
