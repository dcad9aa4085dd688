"""One module per figure or claim."""
