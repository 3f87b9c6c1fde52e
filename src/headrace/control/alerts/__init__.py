"""Delivers the notices of alerts to their notifiers, and reads their history."""
