"""Queue subscriptions: each message goes to one worker, until acknowledged or dead-lettered. Same on both logs."""

from headrace.log.queues.queue import Delivery, Queue, QueueStats

__all__ = ["Delivery", "Queue", "QueueStats"]
