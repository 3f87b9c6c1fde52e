"""Decides how a query runs: the execution mode, its key groups, and the plan in serialized form."""
