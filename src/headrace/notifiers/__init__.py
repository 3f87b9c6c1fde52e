"""Sends alert messages to people and programs: one module per kind of notifier that `plan.notifiers` declares."""
