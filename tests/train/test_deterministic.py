"""Deterministic runs: the same bits whatever the number of actor processes, and after any death."""

import os
import signal
import sys
import time

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import optax

from drivetrain.train import resume, train
from drivetrain.train.learner.learner import Learner
from drivetrain.train.run_dir.checkpoint import load_checkpoint

SMALL = {
    "deterministic": True, "hidden": (8,), "eval_episodes": 1, "final_eval_episodes": 1, "eval_max_steps": 20,
    "eval_interval_steps": 100_000, "seed": 3,
}  # fmt: skip
OFF_POLICY = {**SMALL, "warmup_steps": 100, "batch_size": 8, "updates_per_call": 4, "capacity": 300, "total_steps": 601}
ON_POLICY = {**SMALL, "num_envs": 4, "rollout_length": 16, "batch_size": 16, "num_epochs": 2, "total_steps": 641}
NORMALISED = {"normalize_observations": True, "normalize_rewards": True}
CASES = {
    "dqn": ("dqn", "CartPole-v1", {**OFF_POLICY, **NORMALISED, "num_step": 3, "exploration_steps": 300}),
    "sac": ("sac", "Pendulum-v1", {**OFF_POLICY, **NORMALISED, "update_ratio": "1/6", "noise_correlation": 0.9}),
    "td3": ("td3", "Pendulum-v1", {**OFF_POLICY, "update_ratio": "1/3", "num_step": 2}),
    "ddpg": ("ddpg", "Pendulum-v1", {**OFF_POLICY, "update_ratio": "1/4", "noise_correlation": 0.95}),
    "ppo": ("ppo", "CartPole-v1", {**ON_POLICY, **NORMALISED}),
}
IMAGES = ("dqn", "strange_envs:Film-v0", {**OFF_POLICY, "frame_stack": 2, "num_step": 2, "update_ratio": "1/8"})
STEPS = {"ppo": 704}  # of the others 604: whole rounds


def shared_by(num_actors, algo):
    """Settings for four environments, however many actors there are."""
    envs = {} if algo == "ppo" else {"envs_per_actor": 4 // max(1, num_actors)}
    return {"num_actors": num_actors, **envs}


def run(case, run_dir, num_actors, **changes):
    algo, env, settings = CASES.get(case, IMAGES)
    return train(algo, env, run_dir=str(run_dir), **{**settings, **shared_by(num_actors, algo), **changes})


def require_equal(run_dir, other):
    ours, theirs = (load_checkpoint(each)[0] for each in (run_dir, other))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()] == []


@pytest.mark.parametrize(
    ("case", "counts"),
    [
        ("dqn", (2,)),
        *(pytest.param(case, (1, 2, 4), marks=pytest.mark.slow) for case in CASES),  # a dozen whole runs
    ],
)
def test_a_seed_gives_the_same_bits_with_any_number_of_actors(case, counts, tmp_path):
    first = run(case, tmp_path / "0", 0)
    assert first.num_steps == STEPS.get(case, 604)
    for count in counts:
        result = run(case, tmp_path / str(count), count)
        assert (result.num_steps, result.num_updates) == (first.num_steps, first.num_updates)
        require_equal(tmp_path / "0", tmp_path / str(count))


@pytest.mark.release
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "sac" else pytest.mark.slow) for case in CASES]
)
def test_half_the_steps_and_a_resume_give_what_all_steps_give(case, tmp_path):
    """What anneals over the whole run knows of its end, so that is left out here."""
    constant = {"learning_rate_schedule": "constant", "clip_range_schedule": "constant"}
    plain = constant if case == "ppo" else {"prioritized": False}
    run(case, tmp_path / "whole", 0, **plain)
    half = run(case, tmp_path / "half", 0, **plain, total_steps=320)
    assert half.num_steps == 320
    resume(tmp_path / "half", total_steps=601 if case != "ppo" else 641)
    require_equal(tmp_path / "whole", tmp_path / "half")


@pytest.mark.slow  # compiles for images, three times
def test_half_the_steps_and_a_resume_give_the_same_from_stacked_images(tmp_path):
    run("images", tmp_path / "whole", 2, prioritized=False)
    run("images", tmp_path / "half", 2, prioritized=False, total_steps=320)
    resume(tmp_path / "half", total_steps=601)
    require_equal(tmp_path / "whole", tmp_path / "half")


def under_way(case, start):
    """A run with two actors that has learned, and written checkpoints."""
    algo, env, settings = CASES[case]
    flags = flags_of({**settings, **shared_by(2, algo), "total_steps": 6_000})
    under_way = start("--checkpoint-interval-s", "0.05", *flags, what=(algo, env))
    under_way.wait_until(lambda: (under_way.run_dir / "checkpoint" / "manifest.json").exists())
    under_way.wait_until(lambda: load_checkpoint(under_way.run_dir)[1]["num_steps"] > 1_000)
    return under_way


def require_equal_after_resuming(case, ended, start, whole):
    """The rest of a run that ended early makes it the same as one that did not."""
    assert load_checkpoint(ended.run_dir)[1]["num_steps"] < 6_000
    code, _, err = start(resume=True).end()
    assert code == 0, err
    run(case, whole, 0, total_steps=6_000)
    require_equal(whole, ended.run_dir)


@pytest.mark.slow  # a whole run for each
@pytest.mark.parametrize("case", CASES)
def test_a_run_of_which_everything_was_killed_ends_with_the_same_bits(case, tmp_path, start):
    killed = under_way(case, start)
    killed.kill_all()
    require_equal_after_resuming(case, killed, start, tmp_path / "whole")


@pytest.mark.slow  # a whole run for each
@pytest.mark.parametrize("case", ["dqn", "ppo"])
@pytest.mark.parametrize("who", ["actor", "everybody"])
def test_a_killed_actor_or_ctrl_c_ends_a_run_that_then_goes_on_to_the_same_bits(case, who, tmp_path, start):
    ended = under_way(case, start)
    if who == "actor":
        os.kill(next(iter(ended.children("actor"))), signal.SIGKILL)
    else:
        ended.process.send_signal(signal.SIGINT)
    code, _, err = ended.end()
    assert code == (1 if who == "actor" else 130), err
    assert ("was killed by SIGKILL" in err) == (who == "actor")
    require_equal_after_resuming(case, ended, start, tmp_path / "whole")


MANY = {"update_ratio": 8, "updates_per_call": 5, "total_steps": 131}
"""Updates of a round: seven calls."""


@pytest.mark.parametrize(
    ("case", "num_actors", "changes"),
    [
        ("dqn", 0, {"prioritized": True}),
        ("sac", 0, {"prioritized": False}),
        pytest.param("dqn", 2, {"prioritized": False}, marks=pytest.mark.slow),
        pytest.param("sac", 2, {"prioritized": True}, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_among_the_updates_of_a_round_ends_a_run_that_then_goes_on_to_the_same_bits(
    case, num_actors, changes, tmp_path, monkeypatch
):
    finished, finish = [], Learner.finish

    def interrupted(learner, experience):
        finish(learner, experience)
        finished.append(learner)
        if len(finished) == 10:
            os.kill(os.getpid(), signal.SIGINT)

    changes = {**MANY, **changes}
    run(case, tmp_path / "whole", 0, **changes)
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(case, tmp_path / "ended", 0, **changes)
    meta = load_checkpoint(tmp_path / "ended")[1]
    assert (meta["num_steps"], meta["num_updates"] % 32 > 0) == (108, True)
    assert meta["num_updates"] < 64
    resume(tmp_path / "ended", num_actors=num_actors)
    require_equal(tmp_path / "whole", tmp_path / "ended")


@pytest.mark.whole
def test_ctrl_c_while_a_rollout_is_taken_ends_a_run_of_processes_that_then_goes_on_to_the_same_bits(tmp_path):
    caller = os.getpid()

    def interrupting(rate):
        if (roles := sys.modules.get("drivetrain.train.processes.roles.learner")) is not None:
            take, taken = roles.Rounds.take, []

            def interrupt(rounds):
                take(rounds)
                taken.append(rounds)
                if len(taken) == 4 and roles.Rounds.take is interrupt:  # it may be asked for optimizers again
                    os.kill(caller, signal.SIGINT)
                    time.sleep(1.0)  # until everybody is told

            roles.Rounds.take = interrupt
        return optax.adam(rate)

    run("ppo", tmp_path / "whole", 0, optimizer=optax.adam)
    with pytest.raises(KeyboardInterrupt):
        run("ppo", tmp_path / "ended", 1, optimizer=interrupting)
    meta = load_checkpoint(tmp_path / "ended")[1]
    assert (meta["num_steps"], meta["num_updates"]) == (4 * 64, 4 * 8)
    resume(tmp_path / "ended", optimizer=optax.adam)
    require_equal(tmp_path / "whole", tmp_path / "ended")


@pytest.mark.slow  # a whole run, twice
def test_ctrl_c_among_many_updates_of_a_round_of_processes_is_not_kept_waiting_for_them(tmp_path, start):
    many = {"update_ratio": 2_000, "total_steps": 112, "log_interval_steps": 1}
    ended = start(*flags_of({**CASES["dqn"][2], **many, **shared_by(1, "dqn")}), what=CASES["dqn"][:2])
    ended.wait_until_learning()
    time.sleep(0.5)
    ended.process.send_signal(signal.SIGINT)
    assert ended.end()[0] == 130
    assert load_checkpoint(ended.run_dir)[1]["num_updates"] % 8_000 > 0
    assert start(resume=True).end()[0] == 0
    run("dqn", tmp_path / "whole", 0, **many)
    require_equal(tmp_path / "whole", ended.run_dir)


def flags_of(settings):
    """The same as flags of the command line."""
    flags = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-"))
        else:
            flags += [flag, *map(str, value if isinstance(value, tuple) else (value,))]
    return flags
