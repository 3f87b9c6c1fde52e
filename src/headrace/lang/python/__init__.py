"""The Python API: calls become KSQL statements, with the same syntax tree, the same planner and the same errors.

`headrace` exports the public names.
"""
