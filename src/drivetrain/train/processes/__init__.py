"""A run with processes: a supervisor, and the children that it starts.

supervisor.py   owns the memory, starts the others, watches them, ends them
topology.py     who they are, what each is told (Assignment), and what they share (Memory)
launch.py       Child: a process as the supervisor has it; and being one, or the fork server that they come from
reports.py      from a child to the supervisor, through a pipe
roles/          what each does
"""
