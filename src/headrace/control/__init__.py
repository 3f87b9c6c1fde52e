"""Control layer: applies statements (topics, queries, rows), and supervises and serves queries."""
