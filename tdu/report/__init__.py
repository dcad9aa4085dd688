"""Scores, tables and figures of runs."""
