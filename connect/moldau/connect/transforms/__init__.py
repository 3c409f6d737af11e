"""Single message transforms: all of Kafka's, and `Python` and `Expr` beside them.

Most exist for keys and for values (`Cast$Key`, `Cast$Value`). They behave as Kafka's do, also where
that is surprising: a schema that gets other fields loses that it was optional.
"""
