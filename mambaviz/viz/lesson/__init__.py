"""A few moments of a run in big type: what a lesson shows, one stop after the other."""
