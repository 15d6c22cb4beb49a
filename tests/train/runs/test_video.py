"""What a policy does, as a video: whole episodes, in a file that is complete or not there."""

import os
import shutil
import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("jax", reason="needs the train extra")
pytest.importorskip("av", reason="needs the video extra")
pytest.importorskip("PIL", reason="needs the video extra")
pytest.importorskip("pygame", reason="needs the video extra")

import av
import PIL.Image
import pygame

from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput, MissingExtra, RunError
from drivetrain.train import load_policy, train
from drivetrain.train.config import EnvironmentConfig
from drivetrain.train.environments.faults import EnvironmentFault
from drivetrain.train.environments.making import make
from drivetrain.train.runs.video import fitted, written_video

SMALL = {
    "hidden": (4,), "num_actors": 0, "warmup_steps": 150, "batch_size": 8, "total_steps": 160, "capacity": 200,
    "eval_episodes": 1, "final_eval_episodes": 1, "time_report": False,
}  # fmt: skip
LENGTH = 5


class Drawn(gymnasium.Env):
    """Five steps an episode; a picture is as bright as the episode is old."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.shown = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.num_steps += 1
        return np.ones(2, np.float32), 1.0, self.num_steps == LENGTH, False, {}

    def render(self):
        return np.full((31, 45, 3), 50 * self.num_steps, np.uint8)


class Shrinking(Drawn):
    def render(self):
        return super().render()[self.num_steps :]


class Going(Drawn):
    def reset(self, **options):
        os.chdir("/")
        return super().reset(**options)


class Drawing64(Drawn):
    def render(self):
        return super().render().astype(np.float64)


class Failing(Drawn):
    def render(self):
        raise RuntimeError("no display")


class DrawnByMujoco(Drawn):
    mujoco_renderer = None

    def reset(self, *, seed=None, options=None):
        raise SystemExit("GLFW ends the process")


class Windowed(Drawn):
    """Opens a window as Gymnasium's classic environments do."""

    def reset(self, *, seed=None, options=None):
        if self.render_mode == "human":
            pygame.display.init()
        return super().reset(seed=seed, options=options)


class Undrawn(Drawn):
    def __init__(self):
        super().__init__()


@pytest.fixture(scope="module")
def run_of_drawn(tmp_path_factory):
    return train("dqn", "test_video:Drawn", run_dir=str(tmp_path_factory.mktemp("drawn") / "run"), **SMALL).run_dir


@pytest.fixture
def policy_of(run_of_drawn, tmp_path):
    """The same policy on any of the environments here, whose spaces are alike."""

    def moved(env):
        shutil.copytree(run_of_drawn, tmp_path / "run")
        config = tmp_path / "run" / "config.json"
        config.write_text(config.read_text().replace("test_video:Drawn", env))
        return load_policy(tmp_path / "run")

    return moved


def frames_of(path):
    with av.open(path) as container:
        stream = container.streams.video[0]
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)], stream.average_rate


def test_an_mp4_has_a_picture_of_each_reset_and_step_of_each_episode(tmp_path, policy_of):
    policy = policy_of("test_video:Drawn")
    episodes = policy.record(tmp_path / "two.mp4", num_episodes=2)
    assert [(one.total_reward, one.length) for one in episodes] == [(5.0, LENGTH)] * 2
    frames, rate = frames_of(tmp_path / "two.mp4")
    assert rate == 10
    brightness = [float(frame.mean()) for frame in frames]
    assert brightness == pytest.approx([50.0 * step for step in range(LENGTH + 1)] * 2, abs=3)
    assert {frame.shape for frame in frames} == {(248, 360, 3)}, "8 times 31 x 45"


def test_a_video_lies_where_it_was_asked_for_whoever_goes_elsewhere(tmp_path, monkeypatch, policy_of):
    class Elsewhere(Drawn):
        def __init__(self, render_mode=None):
            super().__init__(render_mode)
            os.chdir("/")

    monkeypatch.setattr(sys.modules[__name__], "Elsewhere", Elsewhere, raising=False)
    monkeypatch.chdir(tmp_path)
    train("dqn", Drawn, run_dir="run", **SMALL)
    monkeypatch.setattr(sys.modules[__name__], "Drawn", Elsewhere)
    assert main(["eval", "run", "--env", f"{__name__}:Drawn", "--episodes", "1", "--video", "out.gif"]) == 0
    assert (tmp_path / "out.gif").exists()
    os.chdir(tmp_path)
    policy = load_policy("run", env=Elsewhere)
    assert os.getcwd() == str(tmp_path)
    policy.record("from_python.gif")
    assert (tmp_path / "from_python.gif").exists()


def test_a_gif_has_the_same_pictures_at_the_same_speed(tmp_path, policy_of):
    policy_of("test_video:Drawn").record(tmp_path / "one.gif")
    with PIL.Image.open(tmp_path / "one.gif") as gif:
        assert gif.n_frames == LENGTH + 1
        assert (gif.size, gif.info["duration"], gif.info["loop"]) == ((360, 248), 100, 0)
        brightness = [np.asarray(frame.convert("RGB")).mean() for frame in frames_in(gif)]
    assert brightness == pytest.approx([50.0 * step for step in range(LENGTH + 1)], abs=3)


def frames_in(gif):
    for number in range(gif.n_frames):
        gif.seek(number)
        yield gif.copy()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("drivetrain/CartPole-v1", {"sim_engine": "none"}),
        pytest.param("Pendulum-v1", {}, marks=pytest.mark.slow),  # compiles another algorithm
    ],
)
def test_what_draws_itself_in_gymnasium_is_drawn_and_the_episode_is_that_of_eval(tmp_path, capsys, env, settings):
    algo = "sac" if env == "Pendulum-v1" else "dqn"
    run = train(algo, env, run_dir=str(tmp_path / "run"), **SMALL, **settings).run_dir
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "2", "--shown", "2", "--video", str(tmp_path / "v.mp4")]) == 0
    shown, mean = capsys.readouterr().out.splitlines()
    path, said = shown.split(": 2 episodes of return ")
    assert path == str(tmp_path / "v.mp4")
    assert np.mean([float(total) for total in said.split(", ")]) == pytest.approx(float(mean.split()[2]), abs=0.1)
    frames, _ = frames_of(tmp_path / "v.mp4")
    assert len(frames) >= 2 * 9
    assert np.ptp(frames[0]) > 100, "something is to be seen"
    assert (frames[0] != frames[5]).any()


def test_an_environment_given_as_a_function_is_asked_for_pictures_where_that_takes_a_mode(tmp_path, policy_of):
    policy = policy_of("test_video:Drawn")
    with policy.make_env(render_mode="rgb_array") as env:
        env.reset()
        assert env.render().shape == (31, 45, 3)
    with policy.make_env() as env:
        assert env.render_mode is None
    with pytest.raises(InvalidInput, match="render_mode: expected one of rgb_array, human, got 'rgb'"):
        policy.make_env(render_mode="rgb")


def test_one_whose_maker_takes_no_mode_is_refused_in_one_sentence(tmp_path, policy_of, capsys):
    policy = policy_of("test_video:Undrawn")
    with pytest.raises(InvalidInput, match=r"render_mode: expected 'rgb_array', .* and it has None; what makes it has"):
        policy.record(tmp_path / "v.mp4")
    assert not (tmp_path / "v.mp4").exists()


@pytest.mark.parametrize(
    ("env", "fault", "sentence"),
    [
        (
            "Drawing64",
            EnvironmentFault,
            r"the start of an episode: expected a picture uint8\[height, width, 3\] from render.*float64",
        ),
        ("Failing", EnvironmentFault, "no display"),
        ("Shrinking", RunError, r"one size, \[31, 45, 3\], and the environment has drawn one of \[30, 45, 3\]; mend"),
    ],
)
@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_what_is_drawn_wrongly_is_told_and_the_video_before_stays(tmp_path, policy_of, env, fault, sentence, kind):
    path = tmp_path / f"v.{kind}"
    path.write_text("before")
    with pytest.raises(fault, match=sentence):
        policy_of(f"test_video:{env}").record(path)
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".tmp"] == []


@pytest.mark.parametrize("name", ["v.avi", "v", "v.mp4.txt"])
def test_other_kinds_of_files_are_refused_before_anything_is_played(tmp_path, policy_of, name):
    policy = policy_of("test_video:Drawn")
    with pytest.raises(InvalidInput, match=rf"video: expected a file named \*\.mp4 or \*\.gif, got .*{name}"):
        policy.record(tmp_path / name)


def test_what_is_no_file_that_can_be_written_is_refused_before_anything_is_played(tmp_path, policy_of):
    policy = policy_of("test_video:Drawn")
    (tmp_path / "taken.gif").mkdir()
    for file, sentence in [
        (tmp_path / "absent" / "v.gif", "its folder does not exist; make it first"),
        (tmp_path / "taken.gif", "expected the name of a file, got a folder"),
        ("~no-such-user/v.gif", "video: expected a path, .* is no user's"),
        (3, "video: expected a path, got 3"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            policy.record(file)


def test_without_its_extra_a_video_is_refused_with_the_command_that_installs_it(tmp_path, policy_of, monkeypatch):
    policy = policy_of("test_video:Drawn")
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MissingExtra, match=r"drivetrain\[video\]"):
        policy.record(tmp_path / "v.mp4")


def test_a_window_shows_the_same_episodes(policy_of, monkeypatch, tmp_path, capsys):
    policy = policy_of("test_video:Drawn")
    assert [one.length for one in policy.watch(2)] == [LENGTH] * 2
    assert main(["eval", str(tmp_path / "run"), "--episodes", "1", "--watch"]) == 0
    assert capsys.readouterr().out.startswith("shown: 1 episode of return 5.0\n")


@pytest.fixture
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)


def test_what_shows_itself_in_no_window_for_want_of_a_display_is_refused(policy_of, monkeypatch, no_display):
    policy = policy_of("test_video:Drawn")
    display = types.SimpleNamespace(get_init=lambda: True, get_driver=lambda: "offscreen")
    monkeypatch.setitem(sys.modules, "pygame", types.SimpleNamespace(display=display))
    with pytest.raises(InvalidInput, match=r"Drawn' cannot be shown in a window: there is no display.*--video FILE"):
        policy.watch()
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")  # whoever asks for it has it
    assert len(policy.watch()) == 1
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setenv("DISPLAY", ":0")
    assert len(policy.watch()) == 1


def test_so_is_a_game_of_atari_whose_window_is_nobodys(policy_of, monkeypatch, no_display):
    policy = policy_of("test_video:Drawn")
    monkeypatch.setattr(Drawn, "ale", object(), raising=False)
    with pytest.raises(InvalidInput, match=r"Drawn' cannot be shown in a window: there is no display.*--video FILE"):
        policy.watch()
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")
    assert len(policy.watch()) == 1


def test_so_is_mujoco_before_it_ends_the_process(policy_of, no_display):
    with pytest.raises(InvalidInput, match=r"DrawnByMujoco' cannot be shown in a window: there is no display"):
        policy_of("test_video:DrawnByMujoco").watch()


def test_so_is_what_sdl_refuses_itself(policy_of, monkeypatch, no_display):
    def init():
        raise pygame.error("No available video device")  # as of 2.0.22; later ones draw to nowhere

    monkeypatch.setattr(pygame.display, "init", init)
    policy = policy_of("test_video:Windowed")
    with pytest.raises(InvalidInput, match=r"Windowed' cannot be shown in a window: there is no display"):
        policy.watch()
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(EnvironmentFault, match="No available video device"):
        policy.watch()


def test_on_the_command_line_one_sentence_says_so(policy_of, monkeypatch, no_display, tmp_path, capfd):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "absent")  # which is as it was afterwards
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    policy_of("test_video:Windowed")
    try:
        assert main(["eval", str(tmp_path / "run"), "--watch"]) == 2
    finally:
        pygame.display.quit()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("drivetrain: error: environment 'test_video:Windowed' cannot be shown in a window")


def test_a_number_of_episodes_to_show_is_refused_where_none_are_drawn_and_none_are_shown(capsys):
    assert main(["eval", "run", "--shown", "3"]) == 2
    assert "--shown: expected --video FILE or --watch beside it, got 3 of neither" in capsys.readouterr().err


@pytest.mark.parametrize("shown", ["0", "-1", "10000000000"])
def test_numbers_of_episodes_that_are_none_are_refused(tmp_path, policy_of, shown):
    policy_of("test_video:Drawn")
    with pytest.raises(InvalidInput, match=r"--shown: expected 1\.\."):
        main_or_raise(["eval", str(tmp_path / "run"), "--watch", "--shown", shown])


@pytest.mark.parametrize("num_episodes", [0, -1, 1.5, "2", None, True, 2**28 + 1])
def test_they_are_refused_in_python_too_and_a_video_before_stays(tmp_path, policy_of, num_episodes):
    policy, path = policy_of("test_video:Drawn"), tmp_path / "v.gif"
    path.write_text("before")
    for play in (
        lambda: policy.record(path, num_episodes),
        lambda: policy.watch(num_episodes),
        lambda: policy.evaluate(num_episodes),
    ):
        with pytest.raises(InvalidInput, match=r"num_episodes: expected an integer in 1\.\.268435456, got "):
            play()
    assert path.read_text() == "before"


def main_or_raise(words):
    from drivetrain.cli.eval import run

    return run(words[1:])


def test_small_pictures_are_enlarged_by_whole_numbers_and_large_ones_are_left(tmp_path):
    assert fitted(np.zeros((10, 12, 3), np.uint8)).shape == (240, 288, 3)
    assert fitted(np.zeros((241, 401, 3), np.uint8)).shape == (242, 402, 3)
    picture = np.random.default_rng(0).integers(256, size=(300, 400, 3), dtype=np.uint8)
    assert (fitted(picture) == picture).all()


@pytest.mark.parametrize("rate", [0.5, 29.97, 240.0])
@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_every_rate_of_pictures_can_be_written(tmp_path, rate, kind):
    path = tmp_path / f"v.{kind}"
    with written_video(path, rate) as add:
        for number in range(3):
            add(np.full((8, 8, 3), 80 * number, np.uint8))
    frames, found = frames_of(path)
    assert len(frames) == 3
    if kind == "mp4":
        assert float(found) == pytest.approx(rate, rel=0.01)


def test_environments_that_go_elsewhere_leave_the_next_video_in_the_callers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train("dqn", Going, run_dir="run", **SMALL)
    policy = load_policy("run", env=Going)
    for name in ("first.gif", "second.gif"):
        policy.record(name)
    assert sorted(os.listdir()) == ["first.gif", "run", "second.gif"]


@pytest.mark.whole
def test_a_simulator_of_ones_own_is_shown_in_a_window_as_ours_are_if_it_draws_itself(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = make("drivetrain/own_simulators:Drawn", EnvironmentConfig(), render_mode="human")
    env.reset(seed=0)
    env.close()
    for mode in ("human", "rgb_array"):
        with pytest.raises(InvalidInput, match=r"Walk': render_mode: expected a simulator with .* render\(.*it one"):
            make("drivetrain/own_simulators:Walk", EnvironmentConfig(), render_mode=mode)
