"""Tools of the repository: reference pages, lock files, the bill of materials, the audit and the test run."""
