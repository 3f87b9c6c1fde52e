"""Authentication, authorization and audit: users, roles and grants stored in the log, tokens, passwords, sessions."""
