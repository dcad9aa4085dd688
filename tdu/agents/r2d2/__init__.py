"""R2D2 with an ensemble of heads, and TDU on it (the paper's section 5.2): parts that need no runner.

sequences.py  steps of experience as plain records, cut into overlapping sequences
replay.py     prioritised sequences on the host; frames.py and sum_tree.py are its parts
network.py    torso, LSTM, an ensemble of dueling heads, priors
learner.py    one learning step on a batch of sequences
actor.py      what acts, and what is evaluated
config.py     options and presets; agent.py puts all of it together
"""
