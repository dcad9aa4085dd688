"""Networks as plain lists of arrays, and ensembles of them as stacked parameters."""
