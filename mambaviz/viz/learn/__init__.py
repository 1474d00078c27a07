"""The Learn page: texts, questions and choices above the stage of the Watch page."""
