"""What people ask about: listings, descriptions, plans, the records of a topic. Answers are data, in no language.

`listing` has the shape of every answer, `lists`, `descriptions` and `printing` make them, `text` shows them to people.
"""
