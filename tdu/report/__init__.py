"""Scores, figures, films and pages of runs."""
