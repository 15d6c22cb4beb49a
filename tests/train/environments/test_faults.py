"""Whatever breaks: the user reads one sentence, no process is left, and the checkpoint loads."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import faulty_envs
from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import ENDLESS, FLAGS, read

from drivetrain.core.aside import written_aside
from drivetrain.core.errors import RunError
from drivetrain.train import train
from drivetrain.train.processes import supervisor
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay
from live_processes import wait_until_dead

PENDULUM = [
    *("--warmup-steps", "200", "--hidden", "8", "--batch-size", "16", "--envs-per-actor", "2", "--num-actors", "1"),
    *("--eval-episodes", "2", "--final-eval-episodes", "2", "--eval-max-steps", "20", "--capacity", "2000"),
    *("--update-ratio", "1/4", "--eval-interval-steps", "100000"),
]  # fmt: skip
OFTEN = ["--checkpoint-interval-s", "0.1", "--log-interval-steps", "100"]


@pytest.fixture
def start_faulty(start, tmp_path, monkeypatch):
    """Starts a run whose environments break, in processes of their own or in one."""

    def start_run(fault, step, *flags, env="Faulty-v0"):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]))
        monkeypatch.setenv("FAULT", fault)
        monkeypatch.setenv("FAULT_STEP", str(step))
        monkeypatch.setenv("FAULT_MARK", str(tmp_path / "mark"))
        return start(*PENDULUM, *flags, what=("sac", f"faulty_envs:{env}"))

    return start_run


def assert_loads(run_dir):
    arrays, meta = load_checkpoint(run_dir)
    assert arrays["params"].size > 0
    with load_replay(run_dir, shared=False) as replay:
        assert len(replay) > 0
    return meta


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("nan", r"step 5 of an episode: expected finite numbers in an observation, got [nan, nan, nan]"),
        ("infinite", "step 5 of an episode: expected a finite number as reward, got inf"),
        ("text", "step 5 of an episode: expected a finite number as reward, got 'much'"),
        ("number as text", "step 5 of an episode: expected a finite number as reward, got '1'"),
        ("number as bytes", "step 5 of an episode: expected a finite number as reward, got b'1'"),
        ("array of text", "step 5 of an episode: expected a finite number as reward, got array(['1']"),
        (
            "foreign observation",
            "step 5 of an episode: expected an observation float32[3], got a OfAnotherLibrary (RuntimeError: can't "
            "call numpy() on a tensor that requires grad)",
        ),
        (
            "foreign reward",
            "step 5 of an episode: expected a finite number as reward, got <faulty_envs.OfAnotherLibrary",
        ),
        ("huge reward", "step 5 of an episode: expected a finite number as reward, got a int"),
        ("shape", "step 5 of an episode: expected an observation float32[3], got float32[2]"),
        ("dtype", "step 5 of an episode: expected an observation float32[3], got <U1[3]"),
        ("nothing", "step 5 of an episode: expected an observation float32[3], got object[]"),
    ],
)
def test_what_an_environment_may_not_return_is_named(tmp_path, monkeypatch, fault, sentence):
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("FAULT_STEP", str(faulty_envs.Faulty.num_steps + 9))  # two environments, in turn
    settings = {"num_actors": 0, "envs_per_actor": 2, "warmup_steps": 200, "hidden": (8,), "batch_size": 16}
    with pytest.raises(RunError) as raised:
        train("ddpg", "faulty_envs:Faulty-v0", run_dir=str(tmp_path / "run"), **settings)
    assert f"environment 'faulty_envs:Faulty-v0', {sentence}" in str(raised.value)
    assert "; mend the environment, or wrap it; the latest checkpoint is " in str(raised.value)
    assert load_checkpoint(tmp_path / "run")[1]["num_steps"] == 8


@pytest.mark.whole
def test_on_the_command_line_it_is_one_sentence(start_faulty):
    run = start_faulty("nan", 9, "--num-actors", "0", "--total-steps", "1000")
    code, _, err = run.end()
    assert code == 1
    told = [line for line in err.splitlines() if not line.startswith("8/1,000 steps")]  # the checkpoint's row
    assert len(told) == 1, err
    assert "environment 'faulty_envs:Faulty-v0', step 5 of an episode: expected finite numbers" in told[0]


def test_without_processes_what_an_environment_raises_is_told_with_its_place_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "raise")
    monkeypatch.setenv("FAULT_STEP", str(faulty_envs.Faulty.num_steps + 61))
    settings = {"num_actors": 0, "envs_per_actor": 2, "warmup_steps": 200, "hidden": (8,), "batch_size": 16}
    with pytest.raises(RunError) as raised:
        train("ddpg", "faulty_envs:Faulty-v0", run_dir=str(tmp_path / "run"), **settings)
    run_dir = tmp_path / "run"
    assert isinstance(raised.value.__cause__, RuntimeError)
    told = re.fullmatch(
        r"environment 'faulty_envs:Faulty-v0', step 31 of an episode: RuntimeError: the rod broke "
        r"\(.*/faulty_envs\.py, line \d+\); mend the environment, or wrap it "
        r"\(log: (?P<log>.*)\); the latest checkpoint is (?P<checkpoint>.*)",
        str(raised.value),
    )
    assert told is not None, raised.value
    assert (told["log"], told["checkpoint"]) == (str(run_dir / "logs" / "sequential.log"), str(run_dir / "checkpoint"))
    assert "in complain" in Path(told["log"]).read_text()
    assert load_checkpoint(run_dir)[1]["num_steps"] == 60


@pytest.mark.whole
def test_an_environment_that_always_breaks_late_ends_the_run_with_the_checkpoint_whole(start_faulty):
    run = start_faulty("nan", 700, *OFTEN, "--total-steps", "1000000")
    code, _, err = run.end()
    assert code == 1
    assert "actor 0 ended with exit code 1: environment 'faulty_envs:Faulty-v0', step " in err
    assert "4 times within a minute; the latest checkpoint is" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert assert_loads(run.run_dir)["num_steps"] >= 200


@pytest.mark.whole
def test_an_environment_that_hangs_is_given_up_after_the_time_out_and_the_run_finishes(start_faulty):
    run = start_faulty("hang", 150, "--total-steps", "1000", "--step-timeout-s", "5")
    code, out, err = run.end()
    assert code == 0, err
    assert "actor 0 was ended: one of its environments has not come back for 5 s (step_timeout_s)" in err
    assert "0.2500 updates per step" in out
    assert assert_loads(run.run_dir)["num_steps"] == 1_000
    started = int((run.run_dir.parent / "mark").read_text())
    wait_until_dead([started])  # what the environment has started went with it; it sleeps far longer than this waits
    for name in ("actor 0", "the evaluator"):  # and when their work was done, they died of closing theirs
        assert re.search(rf"{name} ended with exit code 3 \(log: .*\); its part was done", err), err


@pytest.mark.whole
def test_what_environments_have_started_and_forget_to_end_goes_with_the_run(start_faulty):
    run = start_faulty("", 10**9, "--total-steps", "400", env="Forgetful-v0")
    code, _, err = run.end()
    assert code == 0, err
    started = (run.run_dir.parent / "mark").read_text().split()
    assert len(started) >= 3, "two environments of the actor, and the evaluator's"
    wait_until_dead(list(map(int, started)))


@pytest.mark.whole
def test_threads_that_environments_leave_behind_do_not_hold_the_end_of_a_run_up(start_faulty):
    run = start_faulty("", 10**9, "--total-steps", "400", env="Threaded-v0")
    code, _, err = run.end()
    assert code == 0, err
    assert "was ended" not in err
    for name in ("actor-0", "evaluator-0"):
        words = (run.run_dir / "logs" / f"{name}.log").read_text()
        assert words.startswith("ended, though threads go on that were waited for: simulator, simulator")


@pytest.mark.whole
def test_an_actor_that_leaves_without_a_word_is_said_to_have_left(start_faulty):
    run = start_faulty("leave", 9, "--total-steps", "1000")
    code, _, err = run.end()
    assert code == 1
    assert "actor 0 ended with exit code 0: it left in the midst of its work (log: " in err


@pytest.mark.whole
@pytest.mark.parametrize("num_actors", ["0", "1"])
def test_what_an_environment_raises_cannot_order_the_terminal_about_and_need_not_be_utf_8(start_faulty, num_actors):
    run = start_faulty("paint", 9, "--num-actors", num_actors, "--total-steps", "1000")
    code, out, err = run.end()
    assert code == 1
    assert r"RuntimeError: \x1b]0;owned\x07\x1b[31mred, \udcff" in err
    assert "\x1b" not in out + err


def test_a_constructor_that_hangs_before_there_are_processes_is_given_up_after_the_time_out(start_faulty):
    run = start_faulty("hang", 10**9, "--step-timeout-s", "0.3", env="NeverMade")
    code, _, err = run.end()
    assert code == 2
    assert "'faulty_envs:NeverMade' cannot be made: it has not come back for 0.3 s (step_timeout_s)" in err
    assert len(err.splitlines()) == 1


def limit_files(pid, nbytes):
    """Let a process write no file beyond a size: to it that is a full disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (nbytes, nbytes))


def manifest_of(run_dir):
    return json.loads(read(run_dir / "checkpoint" / "manifest.json") or '{"generation": 0}')


@pytest.mark.whole
def test_a_run_goes_on_when_there_is_no_room_for_its_checkpoint_and_the_one_before_is_whole(start):
    run = start(*ENDLESS, *OFTEN)
    run.wait_until(lambda: manifest_of(run.run_dir)["generation"] >= 1)
    (learner,) = run.children("learner")
    limit_files(learner, 1_000)
    run.wait_until(lambda: not any(name.endswith(".tmp") for name in os.listdir(run.run_dir / "checkpoint")))
    before = manifest_of(run.run_dir)["generation"]
    rows = len(read(run.run_dir / "metrics.jsonl").splitlines())
    run.wait_until(lambda: len(read(run.run_dir / "metrics.jsonl").splitlines()) > rows + 10)
    assert manifest_of(run.run_dir)["generation"] <= before + 1
    assert_loads(run.run_dir)
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.end()
    assert code == 130
    assert "checkpoint: cannot be written: File too large; the one before is whole, and the run goes on" in err
    assert_loads(run.run_dir)


def test_a_run_without_room_for_any_checkpoint_policy_or_result_ends_with_what_it_reached(
    tmp_path, capsys, monkeypatch
):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    for module in ("drivetrain.train.run_dir.archives", "drivetrain.core.aside"):
        monkeypatch.setattr(f"{module}.written_aside", full)
    monkeypatch.setattr("drivetrain.train.runs.run.save_text", lambda path, text: path.write_text(text))
    settings = {"num_actors": 0, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (4,), "batch_size": 8}
    shorter = {"eval_episodes": 1, "final_eval_episodes": 2, "updates_per_call": 4, "time_report": False}
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), total_steps=80, **settings, **shorter)
    assert (len(result.returns), result.num_updates, result.checkpoint_nbytes) == (2, 20, 0)
    said = capsys.readouterr().err
    for name, end in {"checkpoint": "; there is none before", "best": "; the run goes on with the latest"}.items():
        assert f"{tmp_path / 'run' / name}: cannot be written: No space left on device{end}" in said
    assert "result.json: cannot be written" in said


def test_a_file_that_finds_no_room_is_named(tmp_path):
    def write():
        with written_aside(tmp_path / "kept.json"):
            raise OSError(errno.ENOSPC, "No space left on device")  # as a write does, which knows no name

    with pytest.raises(OSError, match=r"No space left on device: '.*/kept\.json'"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_what_a_process_prints_is_lost_where_its_log_has_no_room_and_the_process_goes_on():
    code = (
        "import sys; from drivetrain.train.processes.launch import print_without_fail; print_without_fail()\n"
        "print('joint 3'); sys.stderr.write('warm\\n'); sys.exit(7 if len(sys.argv) > 1 else 0)"
    )
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-c", code]
        assert subprocess.run(words, stdout=full, stderr=full, check=False).returncode == 0
    done = subprocess.run([*words, "7"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "joint 3\n", "warm\n")


@pytest.mark.whole
def test_a_run_goes_on_when_there_is_no_room_for_its_metrics_and_says_so_once(start):
    run = start(*FLAGS, *OFTEN, "--total-steps", "12000")
    run.wait_until_learning()
    limit_files(run.process.pid, (run.run_dir / "metrics.jsonl").stat().st_size + 50)
    code, out, err = run.end()
    assert code == 0, err
    assert err.count("metrics.jsonl: File too large; the run goes on") == 1
    assert "0.5000 updates per step" in out
    assert all(json.loads(line) for line in read(run.run_dir / "metrics.jsonl").splitlines())
    assert assert_loads(run.run_dir)["num_steps"] == 12_000


@pytest.mark.whole
def test_a_second_interrupt_leaves_the_checkpoint_before_whole(start):
    run = start(*ENDLESS, *OFTEN)
    run.wait_until(lambda: manifest_of(run.run_dir)["generation"] >= 2)
    (learner,) = run.children("learner")
    os.kill(learner, signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    run.wait_until(lambda: not run.children("actor"))  # the first is heeded: one that follows at once is the same
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 130
    assert_loads(run.run_dir)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("cancel", r"step 31 of an episode: CancelledError: the simulator went away .*checkpoint"),
        ("interrupt", r": KeyboardInterrupt: no more \(.*; the latest checkpoint is"),  # what Ctrl-C does, too
    ],
)
def test_what_is_raised_and_is_no_exception_is_told_as_well_and_nothing_is_lost(tmp_path, monkeypatch, fault, told):
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("FAULT_STEP", str(faulty_envs.Faulty.num_steps + 61))
    settings = {"num_actors": 0, "envs_per_actor": 2, "warmup_steps": 200, "hidden": (8,), "batch_size": 16}
    with pytest.raises(RunError, match=told):
        train("ddpg", "faulty_envs:Faulty-v0", run_dir=str(tmp_path / "run"), **settings)
    assert load_checkpoint(tmp_path / "run")[1]["num_steps"] == 60


def test_a_fault_of_an_environment_whose_own_process_ctrl_c_has_ended_ends_the_run_as_ctrl_c_does(tmp_path, capsys):
    class Helped(CartPoleEnv):
        num_left = 61

        def step(self, action):
            Helped.num_left -= 1
            if not Helped.num_left:
                os.kill(os.getpid(), signal.SIGINT)  # a terminal tells the simulator, too
                raise BrokenPipeError("the simulator is gone")
            return super().step(action)

    settings = {"num_actors": 0, "envs_per_actor": 2, "warmup_steps": 200, "hidden": (8,), "batch_size": 16}
    with pytest.raises(KeyboardInterrupt):
        train("dqn", Helped, run_dir=str(tmp_path / "run"), **settings)
    assert load_checkpoint(tmp_path / "run")[1]["num_steps"] == 60
    assert re.search(r"the simulator is gone(.|\n)*stopped; the latest checkpoint is", capsys.readouterr().err)


@pytest.mark.whole
def test_an_environment_that_never_comes_back_ends_the_run_however_long_it_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_RESTART_WINDOW_S", 0.0)  # as where the time-out is longer than a third of it
    settings = {"num_actors": 1, "envs_per_actor": 1, "warmup_steps": 200, "hidden": (8,), "batch_size": 16}
    with pytest.raises(RunError, match=r"has not come back for 0\.3 s .* 4 times without a step in between; "):
        train("ddpg", "faulty_envs:Stuck-v0", run_dir=str(tmp_path / "run"), step_timeout_s=0.3, **settings)


@pytest.mark.whole
def test_a_process_that_an_environment_has_left_does_not_keep_a_run_from_its_end(tmp_path):
    settings = {"num_actors": 1, "envs_per_actor": 1, "warmup_steps": 50, "hidden": (8,), "batch_size": 16}
    settings |= {"eval_episodes": 1, "final_eval_episodes": 1, "eval_max_steps": 5, "total_steps": 100}
    result = train("ddpg", "faulty_envs:Helped-v0", run_dir=str(tmp_path / "run"), **settings)
    assert result.num_steps == 100
    helpers = [
        int(pid) for pid in (tmp_path / "run" / "logs" / "actor-0.log").read_text().split("helper ")[1].split()[:1]
    ]
    assert helpers
    wait_until_dead(helpers)


@pytest.mark.whole
def test_an_evaluator_that_never_comes_back_from_the_last_episodes_ends_the_run_though_it_evaluates_each_time(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(supervisor, "_RESTART_WINDOW_S", 0.0)  # as where the time-out is longer than a third of it
    settings = {"num_actors": 1, "envs_per_actor": 1, "warmup_steps": 50, "hidden": (8,), "batch_size": 16}
    settings |= {"eval_episodes": 1, "final_eval_episodes": 1, "eval_max_steps": 5, "total_steps": 100}
    told = []
    settings |= {"callbacks": [told.append], "run_dir": str(tmp_path / "run"), "step_timeout_s": 1}
    with pytest.raises(RunError, match=r"the evaluator .* has not come back for 1 s .* 4 times without a step"):
        train("ddpg", "faulty_envs:StuckAtLast-v0", **settings)
    evaluated = [event.row["num_updates"] for event in told if event.kind == "evaluation"]
    assert evaluated == sorted(set(evaluated)), "evaluated again, and told twice"
    assert evaluated
