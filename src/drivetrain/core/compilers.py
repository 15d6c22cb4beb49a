"""The system's C++ compiler, for what is compiled where it is used."""

import os
import shutil


def find_cxx() -> str | None:
    """Path of CXX, or where that is not set of the first of g++ and clang++; None where there is none."""
    wanted = os.environ.get("CXX")
    names = [wanted] if wanted else ["g++", "clang++"]
    return next((path for name in names if (path := shutil.which(name)) is not None), None)
