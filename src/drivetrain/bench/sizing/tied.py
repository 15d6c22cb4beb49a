"""A command that goes away with the bench that began it, also where that is killed.

PID of the bench, the command's words -> this process becomes the command
"""

import os
import sys

from drivetrain.core.processes import die_with

if __name__ == "__main__":
    die_with(int(sys.argv[1]))  # what a process asked for, it has when it runs another program
    os.execv(sys.argv[2], sys.argv[2:])
