"""`drivetrain bench WHAT`: measure one part against its peers, and write what came out.

Each bench is one package of `drivetrain.bench` whose `command` has a dataclass `Options` whose fields
are the flags, and `run(options, words) -> exit code`. It is imported only when it is chosen.
"""

import importlib
from typing import Any

from drivetrain.cli.flags import read_flags
from drivetrain.core.errors import InvalidInput
from drivetrain.core.signals import Signals, raise_for

# what -> one line of help
BENCHES: dict[str, str] = {
    "actors": "slow environments by 1 to 16 actors, against linear",
    "gpu": "what only an NVIDIA GPU can show: tests, recording, accuracy, simulators, survey",
    "learners": "updates by two learners, against the same by one",
    "learning": "returns reached at equal settings, against Stable-Baselines3, and fused against Gymnasium",
    "replay": "the replay, against cpprb, Tianshou, TorchRL, Flashbax, SB3 and NumPy",
    "scope": "what recording a program adds, and how far the corrected time is from the time alone",
    "sim": "simulators, against Gymnasium, EnvPool and gymnax, and the engines against XLA",
    "sizing": "what automatic sizing chooses, against every number of actors and learners",
    "train": "training (dqn, ppo, sac, td3, ddpg), against Stable-Baselines3, SBX and CleanRL",
}


def run(argv: list[str]) -> int:
    """Choose the bench and run it."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    what = argv[0]
    if what not in BENCHES:
        raise InvalidInput(f"there is no bench {what!r}: choose from {', '.join(BENCHES)}")
    module: Any = importlib.import_module(f"drivetrain.bench.{what}.command")
    options = read_flags(module.Options, argv[1:], prog=f"drivetrain bench {what}")
    with Signals(raise_for):  # SIGTERM by itself would leave the processes that are measured, and their folders
        return int(module.run(options, argv))


def usage() -> str:
    """The help text: one line per bench."""
    width = max(map(len, BENCHES))
    lines = [f"  {what:<{width}}  {summary}" for what, summary in BENCHES.items()]
    return "\n".join(["usage: drivetrain bench WHAT ... (its options: drivetrain bench WHAT --help)", "", *lines])
