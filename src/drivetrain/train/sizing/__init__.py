"""How many actors and learners a run gets, where it leaves that to us ("auto").

    worker (a process of its own) --step, act, update for a moment--> Measurements
    Measurements, every allowed setting --model--> environment steps per second --> the best, and why

    model.py    Measurements; what a setting would come to
    worker.py   acts and updates for a moment
    measure.py  asks workers
    choose.py   the allowed settings; the best of them

References: arXiv:2110.01101 (counts of actors and learners chosen from the machine); Spreeze (tuned from
measured rates).
"""
