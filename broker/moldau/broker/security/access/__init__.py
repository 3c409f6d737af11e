"""Access control rules: what one says, which of them decide, and how they are selected.

    index = AclIndex()
    index.add(acl)
    index.decide(Question("User:alice", "10.0.0.1", AclOperation.READ, AclResource.TOPIC, "orders"))

No IO. The rules are kept in the metadata log (`controller.acls`) and are asked by
`decision.standard_authorizer`.
"""
