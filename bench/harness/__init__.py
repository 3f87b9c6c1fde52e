"""The measuring itself, the same for every table; what is measured stands in `bench/tables`."""
