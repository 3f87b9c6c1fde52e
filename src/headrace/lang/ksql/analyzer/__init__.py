"""Name resolution and type analysis: scopes, coercion, operators."""
