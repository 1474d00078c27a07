"""Runs side by side: block lists, prefix hits, costs, and what differs, locked to one moment.

`rows` reads what a run shows, `pictures` and `charts` draw it, `told` says it, and `payload` puts
it together for the browser (``compare.js``).
"""
