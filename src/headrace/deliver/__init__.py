"""Messages to people and their programs: one module for each kind of notifier that `plan.notifiers` declares."""
