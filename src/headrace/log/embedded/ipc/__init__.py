"""Communication between processes on one machine: fair lock, futex, commit signal, owners."""
