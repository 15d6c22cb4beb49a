"""Learning curves: the mean over seeds with its interval, as numbers and as a picture."""

import json

import numpy as np
import pytest

from drivetrain.cli.main import main
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import Given
from drivetrain.train.run_dir.folder import seed_runs
from drivetrain.train.telemetry.curves import curves, evaluations


@pytest.fixture
def make_run(tmp_path):
    """Writes the folder of a run with these evaluations: {steps: return}."""

    def write(name, found, algo="dqn", env="CartPole-v1", **settings):
        run_dir = tmp_path / name
        run_dir.mkdir(parents=True)
        config = TrainConfig.default(algo, env).override(num_actors=1, **settings)
        (run_dir / "config.json").write_text(config.to_json())
        rows = [{"num_steps": step, "num_updates": 0, "eval_return": value} for step, value in found.items()]
        rows.insert(1, {"num_steps": 5, "loss": 1.0})
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"num_st')
        return run_dir

    return write


def test_a_curve_is_the_mean_over_the_steps_that_all_runs_have(make_run):
    runs = [make_run("a", {0: 0.0, 100: 10.0, 300: 30.0}), make_run("b", {100: 30.0, 200: 40.0})]
    ((found, num_runs),) = curves(runs).by_label.values()
    assert num_runs == 2
    assert (found.num_steps[0], found.num_steps[-1]) == (100, 200)
    assert np.allclose([found.mean[0], found.mean[-1]], [20, 30])
    assert np.allclose([found.low[-1], found.high[-1]], [20, 40])  # two runs: the mean is one of three
    assert np.all((found.low <= found.mean) & (found.mean <= found.high))


def test_the_interval_is_the_bootstrap_of_the_mean_over_runs(make_run):
    values = np.random.default_rng(1).normal(size=12)
    runs = [make_run(str(number), {10: value}) for number, value in enumerate(values)]
    ((found, _),) = curves(runs).by_label.values()
    rng = np.random.default_rng(2)
    means = [rng.choice(values, len(values)).mean() for _ in range(20_000)]
    assert np.allclose([found.low[0], found.high[0]], np.percentile(means, [2.5, 97.5]), atol=0.05)


def test_runs_of_python_objects_share_a_curve_with_other_seeds_of_their_call_alone(make_run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torsos = [(lambda key, obs: {}, lambda p, o: o), (lambda key, obs: {}, lambda p, o: -o)]
    runs = [make_run(f"{name}/seed-{n}", {1: 1.0}, torso=Given("torso", torsos[0])) for name in "ab" for n in (1, 2)]
    runs.append(make_run("c", {1: 1.0}, torso=Given("torso", torsos[1])))
    assert {label: num_runs for label, (_, num_runs) in curves(runs).by_label.items()} == {
        "dqn on CartPole-v1, objects of a": 2,
        "dqn on CartPole-v1, objects of b": 2,
        "dqn on CartPole-v1, objects of c": 1,
    }
    assert list(curves(runs[:2]).by_label) == ["dqn on CartPole-v1"]


def test_runs_of_other_algorithms_or_environments_have_curves_of_their_own(make_run):
    runs = [make_run("a", {1: 1.0}), make_run("b", {1: 1.0}, algo="sac", env="Pendulum-v1"), make_run("c", {1: 3.0})]
    found = curves(runs).by_label
    assert {label: num_runs for label, (_, num_runs) in found.items()} == {
        "dqn on CartPole-v1": 2,
        "sac on Pendulum-v1": 1,
    }
    single = found["sac on Pendulum-v1"][0]
    assert single.low == single.mean == single.high == [1.0]


def test_runs_of_other_settings_have_curves_of_their_own_named_by_these(make_run):
    runs = [
        make_run("a", {1: 1.0}, seed=1),
        make_run("b", {1: 3.0}, seed=2, envs_per_actor=4, total_steps=100),
        make_run("fast", {1: 5.0}, learning_rate=0.01, hidden=(8,)),
        make_run("other", {1: 7.0}, algo="ppo"),
    ]
    found = curves(runs).by_label
    assert {label: (curve.mean[-1], num_runs) for label, (curve, num_runs) in found.items()} == {
        "dqn on CartPole-v1, hidden [256, 256], learning_rate 0.001": (2.0, 2),
        "dqn on CartPole-v1, hidden [8], learning_rate 0.01": (5.0, 1),
        "ppo on CartPole-v1": (7.0, 1),
    }


def test_a_run_of_a_version_without_some_setting_is_like_those_that_have_it(make_run):
    runs = [make_run("a", {1: 1.0}), make_run("b", {1: 3.0})]
    before = json.loads((runs[0] / "config.json").read_text())
    del before["agent"]["double"], before["updates"]["grant_length"]
    (runs[0] / "config.json").write_text(json.dumps(before))
    assert [(label, num_runs) for label, (_, num_runs) in curves(runs).by_label.items()] == [("dqn on CartPole-v1", 2)]


def test_what_has_no_evaluations_is_one_sentence(make_run, tmp_path):
    with pytest.raises(InvalidInput, match="expected the folder of a run"):
        evaluations(tmp_path / "absent")
    with pytest.raises(FileFormatError, match="none: there are no evaluations here"):
        curves([make_run("none", {})])


def test_a_run_that_ended_early_is_left_out_and_named_and_spoils_no_curve(make_run):
    runs = [make_run(f"seeds/seed-{n}", {5: 1.0, 10: 2.0 * n}) for n in (1, 2)]
    failed = [make_run("seeds/seed-3", {2: 1.0}), make_run("seeds/seed-4", {5: 1.0, 7: 1.0})]
    other = make_run("other", {1: 7.0}, algo="ppo")
    for run_dir in runs:
        (run_dir / "result.json").write_text("{}")
    found = curves([runs[0].parent, other])
    mean, num_runs = found.by_label["dqn on CartPole-v1"]
    assert (mean.num_steps[-1], mean.mean[-1], num_runs) == (10, 3.0, 2)
    assert found.by_label["ppo on CartPole-v1"][1] == 1
    assert found.left_out == dict.fromkeys(failed, "has not finished, as others of its curve have")


def test_a_run_without_steps_in_common_with_others_is_left_out_and_named(make_run):
    runs = [make_run("early", {1: 1.0}), make_run("late", {2: 3.0, 4: 5.0}), make_run("later", {3: 7.0, 4: 9.0})]
    found = curves(runs)
    assert found.left_out == {runs[0]: "was evaluated at no steps in common with others of its curve"}
    assert [(curve.mean[-1], num_runs) for curve, num_runs in found.by_label.values()] == [(7.0, 2)]


def test_a_run_that_was_not_evaluated_yet_is_left_out_and_named(make_run, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    runs = [make_run("seeds/seed-1", {1: 2.0}), make_run("seeds/seed-2", {}), make_run("seeds/seed-3", {1: 4.0})]
    runs.append(make_run("seeds/seed-4", {}))
    (runs[3] / "metrics.jsonl").unlink()  # it ended before it had any
    assert curves(runs).left_out == dict.fromkeys([runs[1], runs[3]], "has no evaluations yet")
    assert main(["plot", str(runs[0].parent), "-o", str(tmp_path / "curves.png")]) == 0
    out = capsys.readouterr().out
    assert f"left out: {runs[1]} has no evaluations yet" in out
    assert "dqn on CartPole-v1, 2 runs: 3.0" in out


NO_RETURNS = ('"much"', '"12"', "null", "true", "[1]", "NaN", "1e999")
NO_ROWS = ("null", "[]", "{}", '{"num_steps": "5"}')


@pytest.mark.parametrize("line", [*NO_ROWS, *(f'{{"num_steps": 5, "eval_return": {value}}}' for value in NO_RETURNS)])
def test_rows_that_are_no_metrics_are_one_sentence(make_run, capsys, line):
    run_dir = make_run("a", {0: 0.0})
    (run_dir / "metrics.jsonl").write_text(line + "\n")
    assert main(["plot", str(run_dir)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"drivetrain: error: {run_dir / 'metrics.jsonl'}: ")
    assert len(err.splitlines()) == 1


def test_a_folder_of_several_seeds_stands_for_their_runs(make_run, tmp_path):
    folder = make_run("seeds/seed-2", {1: 2.0}).parent
    make_run("seeds/seed-10", {1: 4.0})
    assert seed_runs(folder) == [folder / "seed-2", folder / "seed-10"]
    (found, num_runs) = curves([folder]).by_label["dqn on CartPole-v1"]
    assert (found.mean[-1], num_runs) == (3.0, 2)


@pytest.mark.parametrize("command", ["eval", "resume", "report"])
def test_commands_for_one_run_name_the_runs_of_several_seeds(make_run, capsys, command):
    folder = make_run("seeds/seed-2", {1: 2.0}).parent
    assert main([command, str(folder)]) == 2
    assert "holds those of several seeds: seed-2" in capsys.readouterr().err
    assert not (folder / "lock").exists()


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_the_command_writes_a_picture_and_says_where_the_curves_end(make_run, tmp_path, capsys, suffix, magic):
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    runs = [make_run(str(n), {step: step * (n + 1) / 10 for step in range(0, 1_001, 100)}) for n in range(5)]
    runs.append(make_run("formula", {1: 1.0, 2: 2.0}, env_kwargs={"sign": "$x_$"}))
    path = tmp_path / f"curves{suffix}"
    assert main(["plot", *map(str, runs), "-o", str(path)]) == 0
    assert path.read_bytes().startswith(magic)
    out = capsys.readouterr().out
    assert "dqn on CartPole-v1, 5 runs: 300.0 (95% interval" in out
    assert 'dqn on CartPole-v1 (sign "$x_$"), 1 run: 2.0 at the end' in out
    assert str(path) in out


@pytest.mark.parametrize("num_runs", [1, 3])
def test_a_curve_of_one_point_can_be_seen(make_run, tmp_path, num_runs):
    image = pytest.importorskip("matplotlib.image", reason="needs the plot extra")
    path = tmp_path / "point.png"
    assert main(["plot", *(str(make_run(str(n), {600: 10.0 + n})) for n in range(num_runs)), "-o", str(path)]) == 0
    red, _, blue, _ = np.moveaxis(image.imread(path), -1, 0)
    below_legend = (blue - red > 0.3)[len(blue) // 4 :]
    assert below_legend.sum() >= 20


def test_runs_are_alike_by_what_they_learn_and_measure_wherever_their_replay_lies(make_run):
    usual = make_run("usual", {1: 1.0, 2: 2.0})
    elsewhere = make_run("elsewhere", {1: 3.0, 2: 2.0}, seed=7, scratch_dir="/tmp", save_replay=False)
    rounded = make_run("rounded", {1: 1.0, 2: 2.0}, precision="bfloat16")
    cut = make_run("cut", {1: 1.0, 2: 2.0}, eval_max_steps=100)
    found = curves([usual, elsewhere, rounded, cut]).by_label
    assert sorted(num_runs for _, num_runs in found.values()) == [1, 1, 2]
    assert [label for label in found if "precision" in label and "bfloat16" in label]
    assert [label for label in found if "eval_max_steps" in label and "100" in label]


def test_names_of_curves_stand_above_them_however_long(make_run, tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="needs the plot extra")
    num_dark = []
    for name, settings in (("short", {}), ("long", {f"setting_{n}": "word" for n in range(9)})):
        path = tmp_path / f"{name}.png"
        assert main(["plot", str(make_run(name, {1: 1.0, 2: 2.0}, env_kwargs=settings)), "-o", str(path)]) == 0
        num_dark.append((image.imread(path)[-550:, :, :3].max(axis=-1) < 0.3).sum())
    assert num_dark[1] == pytest.approx(num_dark[0], rel=0.05)


def test_the_command_refuses_another_kind_of_file(make_run, tmp_path, capsys):
    assert main(["plot", str(make_run("a", {1: 1.0})), "-o", str(tmp_path / "curves.txt")]) == 2
    assert "expected a file ending in .png or .svg or .pdf" in capsys.readouterr().err


def test_a_run_that_is_given_twice_is_one(make_run):
    run = make_run("run", {1: 5.0, 2: 6.0})
    assert [num_runs for _, num_runs in curves([run, run, run / ".." / run.name]).by_label.values()] == [1]
