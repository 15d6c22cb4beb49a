"""Updates per environment step at their ratio: who is ahead waits.

rules.py    the arithmetic
ledger.py   the integers in shared memory, and the waiting
"""
