"""Queue subscriptions: every message to one worker, until it is acknowledged or dead. The same on both logs."""

from headrace.log.queues.queue import Delivery, Queue, QueueStats

__all__ = ["Delivery", "Queue", "QueueStats"]
