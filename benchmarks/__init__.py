"""Repeatable measurements and long runs; nothing of the app imports from here."""
