"""The shell of `headrace sql`: statements go to a server, what comes back is shown.

`pieces` cuts a text into statements and commands, `session` does one after another, `outputs` show answers and rows;
`prompt` is the terminal: history, completion, colours. Nothing here knows what a statement means: the server judges.
"""
