"""bsuite's environments in JAX, each equal to the official one for the same random numbers."""
