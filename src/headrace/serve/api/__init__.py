"""The REST API under `/api/v1`: topics, records, groups, statements, queries, dead letters, metrics.

Each resource has a module with a table of its routes. A route is a function from typed parameters to a typed response.
Requests are parsed, responses written and OpenAPI generated from these types (`parameters`, `app`, `openapi`), so
nothing is declared twice. Every error has the same shape (`errors`).
"""
