"""Clicks of a shop: how often each page is seen, what is bought, and when a visit ends.

headrace run examples/python/clicks.py
"""

import headrace as hr
from headrace import col

app = hr.App("clicks")
clicks = app.stream("clicks", "user STRING KEY, page STRING, amount BIGINT", topic="clicks")
users = app.table("users", "user STRING PRIMARY KEY, card STRING", topic="users")


@app.function
def masked(card: str) -> str:
    """A card number of which only the last four digits are seen."""
    return "*" * (len(card) - 4) + card[-4:]


class Visits(hr.Operator):
    """A visit ends when half a minute passes without a click."""

    output = "pages BIGINT, spent BIGINT"

    def on_event(self, event: hr.Event, ctx: hr.KeyContext) -> None:
        pages, spent = ctx.state or (0, 0)
        ctx.state = (pages + 1, spent + (event.amount or 0))
        ctx.set_timer(event.time + 30_000)

    def on_timer(self, timer: hr.Timer, ctx: hr.KeyContext) -> None:
        pages, spent = ctx.state
        ctx.emit(pages=pages, spent=spent)
        ctx.state = None


per_page = clicks.group_by("page").agg(n=hr.count(), total=hr.sum("amount")).to_table("per_page")
per_minute = clicks.group_by("page").window(hr.tumbling(minutes=1)).count().to_table("per_minute")
visits = clicks.operate(Visits).to_stream("visits")
bought = (
    clicks.where(col.amount > 0)
    .join(users, on="user", how="left")
    .select(clicks["user"].alias("user"), "amount", card=masked(users["card"]))
    .to_stream("bought")
)
app.ksql("CREATE STREAM large AS SELECT user, amount, MASKED(card) AS again FROM bought WHERE amount > 100;")

if __name__ == "__main__":
    hr.run(app)
