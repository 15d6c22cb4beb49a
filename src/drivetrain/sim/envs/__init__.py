"""Environments of ours, one a file."""
