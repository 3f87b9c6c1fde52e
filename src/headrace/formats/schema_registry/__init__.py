"""Schema registry: subjects, versions and compatibility, in memory, in a topic or over HTTP."""
