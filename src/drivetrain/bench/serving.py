"""What a contender's process does when it is asked many times: read a request, carry it out, answer.

One JSON object per line, over the socket whose descriptor is the only argument; an answer is what the bench's
protocol says, or {"missing": why} where the library does not have it, or {"error": what} where it failed.
"""

import json
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.bench.tied import end_with_bench


class NotOffered(Exception):
    """A contender does not have what a case needs; the message says what, for the report."""


def serve(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Answer requests until the other side hangs up."""
    end_with_bench()  # hanging up ends only who is not at a request
    with socket.socket(fileno=int(sys.argv[1])) as connection, connection.makefile("rw") as lines:
        for line in lines:
            try:
                said = answer(json.loads(line))
            except NotOffered as reason:
                said = {"missing": str(reason)}
            except Exception as error:
                traceback.print_exc()  # into the log
                said = {"error": f"{type(error).__name__}: {error}"}
            lines.write(json.dumps(said) + "\n")
            lines.flush()
