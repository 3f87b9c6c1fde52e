"""ksqlDB's REST interface: what its clients send and expect, over a node.

`entities` tells what became of a statement, `refusals` why it was refused, `app` has the paths.
"""
