"""The dashboard: pages in a browser that move with the data. `mount.mounted(site)` puts them under `/ui`.

A page asks what the HTTP interface answers, by the same functions (`desk`), and looks again every second at what all
pages share (`pulse`). It draws with NiceGUI: elements live on the server, and only changes go to the browser. Nothing
is loaded from elsewhere. What records hold is always shown as text, never as HTML.
"""
