"""A run on a compiled simulator learns, bit for bit, what it learns of the same environments through Gymnasium.

The two differ in which random numbers they draw; here the second is given those of the first.
"""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain import sim
from drivetrain.core.seeding import episode_seeds
from drivetrain.train import train
from drivetrain.train.actor.fused.actor import FusedActor
from drivetrain.train.policies.policy import make_policy
from drivetrain.train.run_dir.checkpoint import load_checkpoint

NUM_ENVS = 4
SMALL = {
    "num_actors": 0, "hidden": (16,), "batch_size": 16, "total_steps": 1_280, "eval_interval_steps": 1_280,
    "eval_episodes": 2, "final_eval_episodes": 2, "eval_max_steps": 50,
}  # fmt: skip
OF = {
    "dqn": {"envs_per_actor": NUM_ENVS, "warmup_steps": 200, "epsilon_start": 0.3, "epsilon_end": 0.3},
    "ppo": {"num_envs": NUM_ENVS, "rollout_length": 32, "num_epochs": 2},
}


class Actions:
    """A writer that keeps the actions alone."""

    def __init__(self):
        self.taken = []

    def add(self, *, action, **_):
        self.taken.append(np.array(action))


class ThroughGymnasium:
    """A `Stepper`: environments of `sim.make_vec`, stepped by the choices of a kernel that runs beside them."""

    num_greedy = num_steps = 0

    def __init__(self, config, interface, vector, make_writer, *, path, **_):
        self._choices = Actions()
        self._kernel = FusedActor(config, interface, vector, lambda _: self._choices, path)
        self.moments, self.steps_per_call = None, self._kernel.steps_per_call
        self._policy = None if config.on_policy else make_policy(config, interface, vector)
        (seed,) = episode_seeds(config.run.seed, "training", 1, *path, 0)
        self._envs = sim.make_vec(config.env, NUM_ENVS, "xla", autoreset="same_step")
        self._obs, _ = self._envs.reset(seed=seed)
        self._writer = make_writer(NUM_ENVS)

    def step(self, num_steps, start, /):
        self._choices.taken.clear()
        episodes = self._kernel.step(num_steps, start)
        for action in self._choices.taken:
            obs = self._obs.reshape(NUM_ENVS, -1)
            if self._policy is not None:
                ThroughGymnasium.num_greedy += int((self._policy.act(obs) == action).sum())
                ThroughGymnasium.num_steps += NUM_ENVS
            self._obs, reward, terminated, truncated, infos = self._envs.step(action)
            next_obs = np.array(self._obs)
            for index in np.flatnonzero(terminated | truncated):
                next_obs[index] = infos["final_obs"][index]
            self._writer.add(
                obs=obs, action=action, reward=reward.astype(np.float32), next_obs=next_obs.reshape(NUM_ENVS, -1),
                terminated=terminated, truncated=truncated,
            )  # fmt: skip
        return episodes

    def close(self):
        self._envs.close()


@pytest.mark.whole
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_fused_run_ends_with_the_weights_of_one_through_gymnasium(tmp_path, algo, monkeypatch):
    settings = SMALL | OF[algo]
    train(algo, "drivetrain/Breakout", run_dir=str(tmp_path / "fused"), sim_engine="native", **settings)
    monkeypatch.setattr("drivetrain.train.loop.make_actor", ThroughGymnasium)
    train(algo, "drivetrain/Breakout", run_dir=str(tmp_path / "gymnasium"), sim_engine="native", **settings)
    fused, gymnasium = (load_checkpoint(tmp_path / name)[0] for name in ("fused", "gymnasium"))
    assert fused.keys() == gymnasium.keys()
    for name, array in fused.items():
        np.testing.assert_array_equal(array, gymnasium[name], err_msg=name)
    if algo == "dqn":
        share = ThroughGymnasium.num_greedy / ThroughGymnasium.num_steps
        assert 0.75 < share < 0.85  # epsilon 0.3, a third of whose choices are greedy by chance
