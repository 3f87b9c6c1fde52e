"""Compares a query's results and its view with a batch run over the same input."""
