"""R2D2 with an ensemble of heads, and TDU on it (the paper's section 5.2): parts that need no runner.

sequences.py  the records: steps, the streams that they form, the sequences that are cut from them
replay.py     prioritised sequences on the host; frames.py is a part of it
network.py    torso, LSTM, an ensemble of dueling heads, priors
learner.py    one learning step on a batch of sequences
actor.py      the actors of training and of evaluation
config.py     options and presets; agent.py makes an agent of them
"""
