"""Where rooms are joined: statements become topics, queries and rows, and what runs is watched over."""
