"""The hash of our own files, which what is kept on disk depends on."""

import functools
import hashlib
from pathlib import Path

SIM = Path(__file__).parent
"""Everything between an environment and its program."""
WRITERS = (SIM / "ir", SIM / "engines" / "native", SIM / "engines" / "cuda")
"""What turns a program into C++, or CUDA C++."""


@functools.cache
def own_hash(*folders: Path) -> str:
    """Of the Python files in these folders of ours."""
    hashed = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        hashed.update(f"{path.relative_to(SIM)} {path.stat().st_size}\n".encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
