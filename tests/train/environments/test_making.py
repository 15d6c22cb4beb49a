"""What cannot be made, or is no one environment when it is: one sentence, with what to give in its place."""

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.runs.requirements import describe


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CartPoleX-v1", r"'CartPoleX-v1' cannot be made: .*envs` lists .*named with it: module:Id, module:f"),
        ("dm_control/acrobot-swingup-v0", r"Namespace dm_control not found.*is named with it: module:Id"),
        ("Cartpole-v7", r"cannot be made: .*; take CartPole-v1, or one that `drivetrain envs` lists"),
        ("LunarLander-v2", r"Please use `LunarLander-v3` instead; `drivetrain envs` lists those that can$"),
        ("drivetrain/pong", r"cannot be made: .*; `drivetrain envs` lists those that can$"),
    ],
)
def test_an_id_that_nobody_knows_is_answered_with_one_that_is_known_or_with_how_those_of_a_module_are_named(
    env_id, sentence
):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        describe(TrainConfig.default("dqn", env_id))
    assert "\n" not in str(caught.value)


class Several:
    """In the form of Stable-Baselines3's vector environments, which are of no class of Gymnasium's."""

    num_envs = 2

    def reset(self): ...

    def step(self, actions): ...


class Pool(Several, CartPoleEnv, gymnasium.vector.VectorEnv):
    """In the form of EnvPool's, which say that they are one environment and several."""


class Players:
    """In the form of PettingZoo's environments."""

    possible_agents = ("one", "other")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: gymnasium.make_vec("CartPole-v1", num_envs=2), "CartPoleVectorEnv, several at once: return one; "),
        (Several, "Several, several at once: return one; .*envs_per_actor"),
        (Pool, "Pool, several at once: return one; "),
        (Players, "Players, of several agents: return an environment of one"),
    ],
)
def test_a_function_that_makes_several_environments_or_one_of_several_agents_is_told_to_make_one(make, told):
    with pytest.raises(InvalidInput, match=f"returns a gymnasium.Env, and it returned {told}"):
        describe(TrainConfig.default("dqn", make))
