"""Our own resources over HTTP, under `/api/v1`: topics, records, groups, statements, queries, dead letters, metrics.

Each noun has a module with a table of its routes. A route is a function from typed parameters to a typed answer;
requests are read, answers written, and OpenAPI made from these types (`parameters`, `app`, `openapi`), so nothing is
said twice. Whatever is refused has one shape (`refusals`).
"""
