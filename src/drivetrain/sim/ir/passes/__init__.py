"""Passes: functions from a block to a block with the same meaning."""
