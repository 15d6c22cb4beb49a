"""The games and the quadrotor of ours: rules against readable ones, bits against cells, and play that makes sense."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_engine_equals_xla, random_actions

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.envs.boards import boards
from drivetrain.sim.envs.breakout import State
from drivetrain.sim.envs.four_rooms import DOORS, SIZE, WALLS
from drivetrain.sim.envs.quadrotor import WEIGHT, Params
from drivetrain.sim.registry import ENVIRONMENTS

GAMES = ("Pong", "Breakout", "Snake", "FourRooms")
NUM_ENVS = 12
UP, RIGHT, DOWN, LEFT = range(4)
MOVES = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}


@functools.cache
def played(name, num_steps=200, **options):
    """An environment under random actions on XLA: every observation, reward and end, and the actions."""
    env = sim.make(name, **options)
    record = ("obs", "reward", "terminated", "truncated", "final_obs")
    rollout = sim.compile(env, NUM_ENVS, num_steps, "xla", record=record)
    state, actions = rollout.reset(seed=7), random_actions(env, num_steps, NUM_ENVS)
    first = np.asarray(state.obs)
    return first, actions, jax.tree.map(np.asarray, rollout(state, actions)[1])


@pytest.mark.parametrize(("height", "width"), [(1, 12), (3, 10), (10, 10), (16, 16)])
def test_a_board_of_bits_is_a_board_of_cells(height, width):
    rng = np.random.default_rng(0)
    bits, cells = (boards(height, width, packed=packed) for packed in (True, False))
    flags = rng.random((height, width)) < 0.4
    one, other = bits.of(flags), cells.of(flags)
    for _ in range(30):
        y, x, value = rng.integers(height), rng.integers(width), rng.random() < 0.5
        assert bits.at(one, y, x) == cells.at(other, y, x)
        one, other = bits.put(one, y, x, value), cells.put(other, y, x, value)
        np.testing.assert_array_equal(bits.cells(one), cells.cells(other))
        assert bits.any(one) == cells.any(other)
    assert not bits.any(bits.of(np.zeros((height, width))))


def test_a_row_of_bits_moves_as_a_row_of_cells():
    flags = np.arange(12) // 4 == 1
    for by, expected in ((-1, 3), (0, 4), (1, 5)):
        for packed in (True, False):
            board = boards(1, 12, packed=packed)
            assert np.argmax(board.cells(board.moved(board.of(flags), jnp.int32(by)))[0]) == expected


@pytest.mark.slow  # XLA takes seconds for each
@pytest.mark.parametrize("name", ["Pong", "Breakout", "Snake"])
def test_a_game_on_bits_is_the_game_on_cells(name):
    for packed, cells in zip(jax.tree.leaves(played(name)), jax.tree.leaves(played(name, packed=False)), strict=True):
        np.testing.assert_array_equal(packed, cells)


@pytest.mark.slow  # compiles two games for long episodes
def test_breakout_has_the_rules_of_minatar():
    gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    theirs = gymnax.make("Breakout-MinAtar")[0]
    first, actions, ours = played("Breakout")
    step = jax.jit(lambda state, action: theirs.step_env(jax.random.key(0), state, action, theirs.default_params))
    starts = [theirs.reset_env(jax.random.key(k), theirs.default_params)[1] for k in range(20)]
    of_side = {int(state.ball_x): state for state in starts}
    num_ended = 0
    for index in range(NUM_ENVS):
        state = of_side[int(np.argmax(first[index, 3, :, 1]))]
        for number in range(len(actions)):
            obs, state, reward, done, _ = step(state, actions[number, index])
            np.testing.assert_array_equal(ours["final_obs"][number, index], np.asarray(obs))
            assert ours["reward"][number, index] == reward
            assert ours["terminated"][number, index] == done
            if done:
                state = of_side[int(np.argmax(ours["obs"][number, index, 3, :, 1]))]
                num_ended += 1
    assert num_ended > NUM_ENVS


@pytest.mark.whole
def test_breakout_goes_from_any_state_where_minatar_goes():
    pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    from gymnax.environments.minatar import breakout as minatar

    theirs, env, rng, count = minatar.MinBreakout(), sim.make("Breakout"), np.random.default_rng(0), 2_000
    x, paddle = rng.integers(10, size=(2, count))
    y = rng.integers(9, size=count)
    right, down, in_wall = rng.random((3, count)) < 0.5
    walls = rng.random((count, 3, 10)) < rng.choice([0, 0.3, 0.7, 1], size=(count, 1, 1))
    cells = np.zeros((count, 10, 10))
    cells[:, 1:4] = walls
    heading = np.where(down, np.where(right, 2, 3), np.where(right, 1, 0))
    start = minatar.EnvState(
        time=np.zeros(count, np.int32), ball_x=x, ball_y=y, ball_dir=heading, pos=paddle, brick_map=cells,
        strike=in_wall, last_x=x, last_y=y, terminal=np.zeros(count, bool),
    )  # fmt: skip
    ours = State(
        ball_x=x, ball_y=y, dx=2 * right - 1, dy=2 * down - 1, trail_x=x, trail_y=y, paddle=paddle,
        wall=np.array([np.asarray(env.board.of(wall)) for wall in walls]), in_wall=in_wall, time=start.time,
    )  # fmt: skip
    action, key = jnp.int32(rng.integers(3, size=count)), jax.random.key(0)
    step = jax.vmap(lambda state, action: theirs.step_env(key, state, action, theirs.default_params))
    obs, state, reward, done, _ = jax.jit(step)(jax.tree.map(jnp.asarray, start), action)
    step = jax.vmap(lambda state, action: env.step(key, state, action, env.default_params))
    our_obs, after, our_reward, terminated, _, _ = jax.jit(step)(jax.tree.map(jnp.asarray, ours), action)
    np.testing.assert_array_equal(our_obs, obs)
    np.testing.assert_array_equal(our_reward, reward)
    np.testing.assert_array_equal(terminated, done)
    np.testing.assert_array_equal(after.in_wall, state.strike)
    goes_right, goes_down = np.isin(state.ball_dir, (1, 2)), np.isin(state.ball_dir, (2, 3))
    np.testing.assert_array_equal([after.dx > 0, after.dy > 0], [goes_right, goes_down])


class ReadableSnake:
    """Snake with a list of cells, head first."""

    def __init__(self, obs):
        self.size = obs.shape[0]
        y, x = np.argwhere(obs[..., 1])[0]
        self.cells = [(y, x), (y, x - 1), (y, x - 2)]
        self.heading, self.food = RIGHT, tuple(np.argwhere(obs[..., 3])[0])

    def step(self, action):
        """Reward and whether it is over."""
        self.heading = self.heading if action == (self.heading + 2) % 4 else action
        head = tuple(np.add(self.cells[0], MOVES[self.heading]))
        ate = head == self.food
        rest = self.cells if ate else self.cells[:-1]
        dead = head in rest or not all(0 <= place < self.size for place in head)
        self.cells = [head, *rest]
        return float(ate) - float(dead), dead or len(self.cells) == self.size**2


@pytest.mark.release
def test_snake_has_the_rules_of_a_list_of_cells():
    first, actions, ours = played("Snake", 400, size=5)
    num_eaten, num_ended = 0, 0
    for index in range(NUM_ENVS):
        snake = ReadableSnake(first[index])
        for number in range(len(actions)):
            reward, over = snake.step(int(actions[number, index]))
            assert (ours["reward"][number, index], ours["terminated"][number, index]) == (reward, over)
            num_eaten, num_ended = num_eaten + (reward > 0), num_ended + over
            obs = ours["obs"][number, index]
            if over:
                snake = ReadableSnake(obs)
            snake.food = tuple(np.argwhere(obs[..., 3])[0])
            assert sorted(map(tuple, np.argwhere(obs[..., 0]))) == sorted(snake.cells)
            assert tuple(np.argwhere(obs[..., 1])[0]) == snake.cells[0]
            assert tuple(np.argwhere(obs[..., 2])[0]) == snake.cells[-1]
            assert snake.food not in snake.cells
    assert num_eaten > 10
    assert num_ended > 20


@pytest.mark.release
def test_food_lies_on_each_free_cell_equally_often():
    env = sim.make("Snake", size=4)
    obs, _ = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(0), 2600), env.default_params)
    count = np.asarray(obs, int)[..., 3].sum(axis=0)
    taken = np.asarray(obs)[0, ..., 0] == 1
    assert not count[taken].any()
    assert np.abs(count[~taken] - 200).max() < 4 * np.sqrt(200)


def test_a_snake_of_no_room_is_refused():
    with pytest.raises(InvalidInput, match="size: expected an integer from 4 to 16, got 3"):
        sim.make("Snake", size=3)


@pytest.mark.release
def test_pong_counts_points_for_who_is_missed_and_ends_at_five():
    first, _, ours = played("Pong", 400)
    assert set(np.unique(ours["reward"])) == {-1.0, 0.0, 1.0}
    for index in range(NUM_ENVS):
        lost = won = 0
        for number in range(400):
            lost, won = lost + (ours["reward"][number, index] < 0), won + (ours["reward"][number, index] > 0)
            assert ours["terminated"][number, index] == (5 in (lost, won))
            if ours["terminated"][number, index]:
                lost = won = 0
    paddles = ours["final_obs"][..., 0]
    np.testing.assert_array_equal(paddles.sum(axis=-2)[..., [0, -1]], 4)
    np.testing.assert_array_equal(ours["final_obs"][..., 1].sum(axis=(-1, -2)), 1)
    assert first.shape == (NUM_ENVS, 12, 16, 3)


@pytest.mark.release
def test_locked_doors_open_for_keys_and_stay_open():
    first, actions, ours = played("FourRooms", 250)
    before = np.concatenate([first[None], ours["obs"][:-1]])
    after, num_opened, num_found, num_stopped = ours["final_obs"], 0, 0, 0
    for number, index in np.ndindex(actions.shape):
        old, new = before[number, index], after[number, index]
        place = np.argwhere(old[..., 0])[0]
        ahead = tuple(place + MOVES[int(actions[number, index])])
        locked, carried = bool(old[ahead][3]), int(old[0, 0, 5])
        stopped = bool(WALLS[ahead]) or (locked and not carried)
        here = tuple(place) if stopped else ahead
        found = bool(old[here][4])
        assert tuple(np.argwhere(new[..., 0])[0]) == here
        assert bool(new[ahead][3]) == (locked and not carried)
        assert int(new[0, 0, 5]) == carried - (locked and not stopped) + found
        assert not new[here][4]
        assert ours["terminated"][number, index] == (here == tuple(np.argwhere(old[..., 1])[0]))
        num_opened, num_found = num_opened + (locked and not stopped), num_found + found
        num_stopped += locked and stopped
    assert min(num_opened, num_found, num_stopped) > 0


def of_first_episodes(name, policy, num_steps, num_envs=NUM_ENVS):
    """Mean return of the first episode of each environment."""
    venv = sim.make_vec(name, num_envs, "xla", autoreset="same_step")
    obs, _ = venv.reset(seed=0)
    returns, alive = np.zeros(num_envs), np.ones(num_envs, bool)
    for _ in range(num_steps):
        obs, reward, terminated, truncated, _ = venv.step(policy(obs))
        returns += alive * reward
        alive &= ~(terminated | truncated)
    return returns.mean()


def random_policy(name):
    venv = sim.make_vec(name, NUM_ENVS, "xla")
    venv.action_space.seed(0)
    return lambda obs: venv.action_space.sample()


def column(plane):
    """Of the only cell of each plane."""
    return plane.any(axis=1).argmax(axis=-1)


def follow_in_breakout(obs):
    aside = column(obs[..., 1]) - column(obs[..., 0])
    return np.where(aside < 0, 1, np.where(aside > 0, 2, 0))


def follow_in_pong(obs):
    ball = obs[..., 1].any(axis=2).argmax(axis=1)
    top = obs[..., -1, 0].argmax(axis=1)
    return np.where(ball < top + 1, 1, np.where(ball > top + 2, 2, 0))


def eat(obs):
    return np.array([towards_food(each) for each in obs])


def towards_food(obs):
    body, head, tail, food = (list(map(tuple, np.argwhere(obs[..., k]))) for k in range(4))
    best, choice = np.inf, 0
    for action, move in MOVES.items():
        place = tuple(np.add(head[0], move))
        free = place not in body or place == tail[0]
        if free and all(0 <= k < len(obs) for k in place):
            distance = np.abs(np.subtract(place, food[0])).sum()
            best, choice = min((best, choice), (distance, action))
    return choice


def walk(obs):
    return np.array([towards_key_or_goal(each) for each in obs])


def towards_key_or_goal(obs):
    """The first step of a shortest way to the goal, if it is open, else to a key, or through a door."""
    start, goal = tuple(np.argwhere(obs[..., 0])[0]), tuple(np.argwhere(obs[..., 1])[0])
    first, queue = {start: None}, [start]
    for place in queue:
        for action, move in MOVES.items():
            ahead = tuple(np.add(place, move))
            if ahead not in first and not WALLS[ahead] and (not obs[ahead][3] or obs[0, 0, 5]):
                first[ahead] = action if first[place] is None else first[place]
                queue.append(ahead)
    keys = [place for place in queue[1:] if obs[place][4]]
    wanted = goal if goal in first else (keys or [place for place in queue[1:] if obs[place][3]] or queue)[0]
    return first[wanted] or 0


def hover(obs):
    """Two loops of proportional and derivative control: the wanted acceleration tilts, tilt is torque."""
    params = Params()
    x, z, sine, cosine, x_dot, z_dot, theta_dot = obs.T
    wanted = np.clip((2.0 * x + 2.0 * x_dot) / params.gravity, -0.4, 0.4)
    total = params.mass * (params.gravity - 4.0 * z - 3.0 * z_dot) / np.maximum(cosine, 0.5)
    torque = params.inertia * (60.0 * (wanted - np.arctan2(sine, cosine)) - 12.0 * theta_dot)
    forces = np.stack([total - torque / params.arm, total + torque / params.arm], axis=-1) / 2
    return (2 * forces / (params.thrust * WEIGHT / 2) - 1).astype(np.float32)


@pytest.mark.slow  # XLA takes seconds for each
@pytest.mark.parametrize(
    ("name", "policy", "num_steps", "least", "most_at_random"),
    [
        ("Breakout", follow_in_breakout, 300, 20.0, 3.0),
        ("Pong", follow_in_pong, 1000, 0.0, -2.0),
        ("Snake", eat, 300, 8.0, 1.0),
        ("FourRooms", walk, 120, 1.0, 0.5),
        ("Quadrotor", hover, 500, 400.0, 60.0),
    ],
)
def test_a_simple_rule_is_worth_much_more_than_acting_at_random(name, policy, num_steps, least, most_at_random):
    assert of_first_episodes(name, policy, num_steps) >= least
    assert of_first_episodes(name, random_policy(name), num_steps) <= most_at_random


def test_the_quadrotor_falls_without_thrust_hovers_with_half_and_turns_with_one_rotor():
    env = sim.make("Quadrotor")
    _, start = env.reset(jax.random.key(0), env.default_params)
    still = type(start)(*np.zeros(6, np.float32), np.int32(0))
    act = jax.jit(lambda action: env.step(jax.random.key(0), still, action, env.default_params)[1])
    assert act(jnp.array([-1.0, -1.0])).z_dot == pytest.approx(-9.81 * 0.02)
    hovering = act(jnp.array([0.0, 0.0]))
    assert (float(hovering.z_dot), float(hovering.theta_dot)) == (pytest.approx(0, abs=1e-6), 0)
    turning = act(jnp.array([-1.0, 1.0]))
    assert turning.theta_dot > 0  # anticlockwise, by the right rotor
    np.testing.assert_array_equal(act(jnp.array([-9.0, 9.0])).theta_dot, turning.theta_dot)


def test_the_four_rooms_are_joined_by_four_doors():
    assert (SIZE, DOORS.sum()) == (13, 4)
    for y, x in np.argwhere(DOORS):
        sides = [WALLS[y - 1, x] & WALLS[y + 1, x], WALLS[y, x - 1] & WALLS[y, x + 1]]
        assert sum(map(bool, sides)) == 1


@pytest.mark.whole
@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "Knob"])
def test_a_picture_shows_where_an_environment_stands(name):
    env = sim.make(name)
    states = [env.reset(jax.random.key(k), env.default_params)[1] for k in (0, 5)]
    frames = [env.render(state, env.default_params) for state in states]
    for frame in frames:
        assert (frame.dtype, frame.shape[2]) == (np.uint8, 3)
        assert len(np.unique(frame.reshape(-1, 3), axis=0)) >= 3
    assert not np.array_equal(*frames)


@pytest.mark.release
def test_breakout_on_native_equals_xla():
    assert_engine_equals_xla(sim.make("Breakout"), "native", num_envs=13, num_steps=60)


@pytest.mark.slow  # half a minute: compilers, several times
@pytest.mark.parametrize("name", [*GAMES, "Quadrotor"])
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_every_engine_equals_xla(name, engine):
    assert_engine_equals_xla(sim.make(name), engine, num_envs=13, num_steps=300)
