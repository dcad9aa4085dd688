"""R2D2 with an ensemble of heads, and TDU on it (the paper's section 5.2): parts that need no runner."""
