"""Admission of work: classes of work with threads and queues of their own, fair among principals."""
