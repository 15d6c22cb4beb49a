"""What is seen of a run, while it goes on and afterwards.

    metrics.py       Meter -> rows of RUN/metrics.jsonl -> sinks/, one file per place
    unreported.py    what happened since the last row, kept with a checkpoint
    progress.py      rows -> what stands on the terminal
    curves.py        rows of finished runs -> learning curves
    recording.py     what the processes are at -> RUN/time, by `scope`
    time_report.py   RUN/time -> RUN/report.html

The caller's own functions, which are told of rows, too, are in callbacks.py.
"""
