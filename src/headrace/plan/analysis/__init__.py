"""Analysis of a plan: the columns it reads, the keys it looks up, the shape of its state."""
