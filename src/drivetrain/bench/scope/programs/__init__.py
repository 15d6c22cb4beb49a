"""Programs to be profiled: PROGRAM.py ALGO ENV STEPS, in an empty folder, where each leaves window.json."""
