"""bsuite's environments in JAX, each equal to the official one given the same random draws."""
