"""The native way: plans as Spark's own streaming operators. `choice` says for which plans, `flow` does it."""
