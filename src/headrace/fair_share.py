"""The rule by which users share something of which there is a total: bytes of bodies, push queries, tails.

Nobody has more than what stays free for the others. One user alone gets half of the total, two get a third each, and so
on: there is always room for one more, and nothing is kept unused for users who may never come.
"""

from __future__ import annotations


def exceeds_share(own: int, held: int, total: int, count: int = 1) -> bool:
    """Whether a user who has `own` of what is `held` would have more than a share with `count` more.

    The first piece of a user is never above the share.
    """
    return own > 0 and own + count > total - held - count
