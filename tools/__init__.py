"""What is done to the repository by program."""
