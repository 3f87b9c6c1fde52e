"""Python calls become KSQL statements: the same grammar's nodes, the same planner, the same refusals.

`headrace` itself gives the public names; here is where they live.
"""
