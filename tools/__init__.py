"""Helpers for working on the project; the app imports nothing from here."""
