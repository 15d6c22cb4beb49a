"""Where rows of metrics go beside metrics.jsonl, which is their source: one file per place."""
