"""Experiments: settings as data, and the analysis beside them. Each module is a command that can be cut off and continued."""
