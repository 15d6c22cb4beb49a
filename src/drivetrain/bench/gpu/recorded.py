"""A program of this bench under `drivetrain profile --gpu on`, or under torch.profiler, and what that left."""

from pathlib import Path

from drivetrain import scope
from drivetrain.bench.scope.trial import finish
from drivetrain.core.errors import DrivetrainError, RunError
from drivetrain.scope.profile import Profile
from drivetrain.scope.trace import kineto

PROGRAMS = Path(__file__).parent / "programs"


def record(folder: Path, script: Path, *words: str, calibrate_every: int, limit_s: float) -> Profile:
    """Run it in `folder`, recorded into `folder`/recording.

    Raises:
        RunError: It failed, took too long, or the GPU was not recorded.
    """
    profile = ["-m", "drivetrain.cli.main", "profile", "-o", "recording", "--gpu", "on"]
    finish([*profile, "--calibrate-every", str(calibrate_every), str(script), *words], folder, limit_s)
    return used(scope.load(folder / "recording"), str(script.name))


def under_kineto(folder: Path, script: Path, *words: str, limit_s: float) -> Profile:
    """Run it in `folder` under torch.profiler.

    Raises:
        RunError: It failed, took too long, or its trace holds nothing of a GPU.
    """
    file = folder / "kineto.json.gz"
    finish([str(PROGRAMS / "under_kineto.py"), str(file), str(script), *words], folder, limit_s)
    try:
        return used(Profile(kineto.trace_of(file)), f"{script.name} under torch.profiler")
    except DrivetrainError as error:
        raise RunError(str(error)) from error


def used(profile: Profile, name: str) -> Profile:
    """The same.

    Raises:
        RunError: No activity of a GPU is in it; says what it says of that.
    """
    gpu = profile.trace.gpu
    if gpu is None or not len(gpu.activity):
        said = [note for note in profile.trace.notes if "GPU" in note] or ["nothing ran there"]
        raise RunError(f"{name}: expected activities of a GPU, got none: {said[0]}")
    return profile
