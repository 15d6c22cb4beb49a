"""Development sessions: `nox` runs the default ones, `nox -s NAME` one of them.

Each makes its own virtual environment, with the versions of constraints.txt but for `newest`.
"""

from pathlib import Path

import nox

nox.options.sessions = ["tests", "lint", "types"]
nox.options.default_venv_backend = "venv"


def install(session: nox.Session, *packages: str) -> None:
    session.install("-c", "constraints.txt", *packages)


@nox.session
def tests(session: nox.Session) -> None:
    install(session, ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def whole(session: nox.Session) -> None:
    install(session, ".[test]")
    session.run("pytest", "-m", "whole and not slow and not stress", *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """What CI has no time for."""
    install(session, ".[test]")
    session.run("pytest", "-m", "release and not slow and not stress", *session.posargs)


@nox.session
def newest(session: nox.Session) -> None:
    """With the newest libraries that there are for this Python, as users without constraints have them."""
    session.install(".[test]")
    # gymnax asks for older ones than it needs, and users without it have these.
    session.install("--no-deps", "--upgrade", "jax<0.13", "jaxlib<0.13", "gymnasium")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    install(session, "ruff", "import-linter")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": "src"})


@nox.session
def types(session: nox.Session) -> None:
    install(session, ".[test]", "pyright[nodejs]")
    session.run("pyright")


@nox.session
@nox.parametrize("sanitizer", ["thread", "address"])
def native(session: nox.Session, sanitizer: str) -> None:
    install(session, "cmake", "ninja", "nvidia-cuda-cupti", "nvidia-cuda-runtime", "nvidia-cuda-crt")
    build = f"build/{sanitizer}"
    headers = next(Path(session.virtualenv.location).rglob("cupti.h")).parent
    options = ["-DDRIVETRAIN_PYTHON=OFF", "-DDRIVETRAIN_TESTS=ON", f"-DDRIVETRAIN_SANITIZER={sanitizer}"]
    options += [f"-DDRIVETRAIN_CUPTI_INCLUDE={headers}"]
    session.run("cmake", "-S", ".", "-B", build, "-G", "Ninja", *options)
    session.run("cmake", "--build", build)
    # ThreadSanitizer's shadow memory lies at fixed addresses.
    ctest = ["ctest", "--test-dir", build, "--output-on-failure"]
    session.run("setarch", "--addr-no-randomize", *ctest, external=True)


@nox.session
def bench(session: nox.Session) -> None:
    # PyTorch first and exactly: a peer that asks for any version would take the newest GPU build.
    install(session, "torch==2.13.0")
    install(session, ".[bench]")
    session.run("drivetrain", "bench", *(session.posargs or ["train", "--quick"]))
