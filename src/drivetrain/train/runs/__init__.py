"""Runs from the outside: what `drivetrain.train` offers, and what is settled before and between their parts.

run.py            a new run: its folder, who carries it out (processes/ or loop.py), its result
resuming.py       an interrupted one, from its checkpoint
seeds.py          the same one from several seeds (seed_lists.py), and what they reach together (intervals.py)
requirements.py   what stands in its way, said before anything starts; tried.py: with what the user has brought
remarks.py        what will come to nothing in it
freezing.py       between two parts of one: stored embeddings
trained.py        what it has learned, to act with
"""
