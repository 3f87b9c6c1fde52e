"""The shell of `headrace sql`: sends statements to a server and shows the responses.

`statement_splitter` splits text into statements and commands, `session` executes them in order, `output_formats` shows
results and rows, and `prompt` is the terminal: history, completion, colours. The shell does not interpret statements
beyond that: the server does.
"""
