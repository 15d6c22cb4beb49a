"""Traces: what a session recorded, in memory and at rest."""
