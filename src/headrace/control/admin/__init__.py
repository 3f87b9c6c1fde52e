"""Operation of a server: locks, discovery, checkpoints, `headrace doctor`, dry runs, reloading settings."""
