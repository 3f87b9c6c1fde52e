"""The console: live web pages. `mount.Console(context)` provides them under `/ui`.

A page calls the functions of the HTTP API directly (`page_context`), and polls the state that all pages share once a
second (`poller`). It is built with NiceGUI: elements live on the server, and only changes are sent to the browser.
Nothing is loaded from other servers. Contents of records are always shown as text, never as HTML.
"""
