"""The folder of a run, and what is kept there.

RUN/config.json, lock, logs/    folder.py
RUN/checkpoint/, RUN/best/      checkpoint.py; saving.py says when, in archives of arrays (archives.py)
RUN/result.json                 results.py
RUN/metrics.jsonl, time/        telemetry/
"""
