"""The requests of clients: one module an API, each a function of the node and one request.

- what a handler stands on      `node.Node`
- what it gets                  `request.ApiRequest`
- which module serves which key `handlers.HANDLERS`
- what the network layer calls  `service.BrokerService`

A handler is `def serve(node, request) -> None`, called on the event loop in the order of arrival.
It never blocks: it answers at once, or keeps the request and answers when somebody calls it back.
"""
