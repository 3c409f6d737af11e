"""Single message transforms: all of Kafka's, and also `Python` and `Expr`.

Most exist for keys and for values (`Cast$Key`, `Cast$Value`). They behave like Kafka's, even where
that is surprising: a schema whose fields change is no longer optional.
"""
