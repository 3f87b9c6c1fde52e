"""Plans a SELECT: joins, grouping, projection, time clauses."""
