"""ksqlDB's REST API, as its clients expect it, over a node.

`entities` formats the results of statements, `errors` formats errors, `app` has the paths.
"""
