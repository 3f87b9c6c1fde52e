"""Who may do what: users, roles and grants, kept in the log; tokens and passwords; one decision; what was done."""
