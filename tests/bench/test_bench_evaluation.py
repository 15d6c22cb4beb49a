"""The evaluator that all rivals share."""

import gymnasium
import numpy as np

from drivetrain.bench.train.evaluation import FIRST_SEED, chooser, evaluate, outputs

ENV = "CartPole-v1"


def layers(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    sizes = [(4, 8), (8, 2)]
    return [
        ((scale * rng.normal(size=size)).astype(np.float32), rng.normal(size=size[1]).astype(np.float32))
        for size in sizes
    ]


def play_one_by_one(network, num_episodes):
    returns = []
    env = gymnasium.make(ENV)
    for episode in range(num_episodes):
        obs, _ = env.reset(seed=FIRST_SEED + episode)
        total, over = 0.0, False
        while not over:
            action = int(outputs(network, obs[None]).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def test_episodes_side_by_side_equal_episodes_one_by_one():
    network = layers(0)
    result = evaluate(network, ENV, num_episodes=7)
    assert result.exact
    assert result.mean == play_one_by_one(network, 7)


def test_it_gives_up_once_the_target_is_out_of_reach_and_says_an_upper_bound():
    network = layers(0)
    exact = evaluate(network, ENV, num_episodes=5)
    early = evaluate(network, ENV, num_episodes=5, target=475.0)
    assert exact.mean < 475.0
    assert not early.exact
    assert exact.mean <= early.mean < 475.0


def test_a_target_within_reach_is_played_to_the_end():
    network = layers(0)
    assert evaluate(network, ENV, num_episodes=5, target=1.0) == evaluate(network, ENV, num_episodes=5)


def test_a_network_is_relu_between_its_layers():
    kernel = np.array([[1.0, -1.0]], np.float32)
    twice = 2 * np.eye(2, dtype=np.float32)
    bias = np.array([0.0, 0.5], np.float32)
    numbers = outputs([(kernel, bias), (twice, bias)], np.array([[3.0]], np.float32))
    assert numbers.tolist() == [[6.0, 0.5]]
    hidden = np.tanh([[3.0, -2.5]])
    assert np.allclose(
        outputs([(kernel, bias), (twice, bias)], np.array([[3.0]], np.float32), "tanh"), 2 * hidden + bias
    )


def test_real_valued_actions_are_the_outputs_within_the_bounds():
    space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
    choose = chooser([(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], space, "tanh")
    assert [action.tolist() for action in choose(np.array([[0.5], [-7.0]], np.float32))] == [[0.5], [-2.0]]


def test_squashed_actions_are_the_bounds_at_the_ends_of_tanh():
    space = gymnasium.spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 10.0]), (2,), np.float32)
    choose = chooser([(np.ones((1, 2), np.float32), np.zeros(2, np.float32))], space, "relu", squashed=True)
    low, middle, high = choose(np.array([[-50.0], [0.0], [50.0]], np.float32))
    assert (low.tolist(), middle.tolist(), high.tolist()) == ([-2.0, 0.0], [0.0, 5.0], [2.0, 10.0])
