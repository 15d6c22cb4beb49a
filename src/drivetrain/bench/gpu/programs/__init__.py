"""Programs that use a GPU and know nothing of what measures them; each runs as a process of its own."""
