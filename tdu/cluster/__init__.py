"""Runs on a Ray cluster: sweeps, and one run whose actors, replay and learner are processes. All that imports ray."""
