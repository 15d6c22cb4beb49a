"""The representation of one step, and what makes it smaller and faster."""
