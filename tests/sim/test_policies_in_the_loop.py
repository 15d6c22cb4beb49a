"""A policy in the loop acts as the same function under JAX does, on every engine, and its weights are arguments."""

# Over 400 lines: one environment and a policy of every kind, which all of these tests share.

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_same

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.engines.native import engine as native
from drivetrain.sim.random import policy_key

PLAYED = ("obs", "action", "reward", "terminated", "truncated", "obs_before", "final_obs")


@functools.cache
def made(name):
    """An environment, a policy for it, its parameters with outputs that differ, and the names of its extras."""
    env = sim.make(name)
    if name == "Breakout":
        act, extras = sim.policies.linear(env, head="epsilon_greedy"), ("q_values",)
    else:
        act, extras = (
            sim.policies.mlp(env, hidden=(64, 64) if name == "CartPole-v1" else (64, 32)),
            ("log_prob", "value"),
        )
    params = jax.tree.map(np.asarray, jax.jit(act.init)(jax.random.key(1)))
    params["output"] = jax.tree.map(lambda x: 50 * x + np.float32(0.1), params["output"])
    return env, act, params, extras


CASES = ("CartPole-v1", "Pendulum-v1", "Breakout")


def play_by_hand(env, act, params, seed, num_envs, num_steps):
    """Steps of a policy, environment by environment, as the documentation words the keys; no autoreset."""

    def one(key):
        rows = []
        obs, state = env.reset(jax.random.fold_in(key, 2**32 - 1), env.default_params)
        for step in range(num_steps):
            here, before = jax.random.fold_in(key, step), obs
            action, extras = act(params, obs, jax.random.fold_in(here, 3))
            obs, state, reward, *_ = env.step(jax.random.split(here)[0], state, action, env.default_params)
            rows.append({"obs": obs, "action": action, "reward": reward, "obs_before": before, **extras})
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)

    played = [jax.jit(one)(key) for key in jax.random.split(jax.random.key(seed), num_envs)]
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *played)


@pytest.mark.whole
def test_a_policy_in_the_loop_plays_as_the_same_function_under_jax():
    env, act, params, extras = made("CartPole-v1")
    record = ("obs", "action", "reward", "obs_before", *extras)
    rollout = sim.compile(env, 3, 2, "xla", policy=act, policy_params=params, record=record, autoreset="disabled")
    _, trajectory = rollout(rollout.reset(seed=7), policy=params)
    assert_same(play_by_hand(env, act, params, 7, 3, 2), trajectory)


def assert_acts_as_xla(env, act, params, engine, extras, num_steps, **options):
    """Every step from the oracle's state; returns how many episodes ended."""
    options = {"policy": act, "policy_params": params, "record": (*PLAYED, *extras), **options}
    oracle, tested = (sim.compile(env, 13, 1, each, **options) for each in ("xla", engine))
    state, num_ended = oracle.reset(seed=3), 0
    for step in range(num_steps):
        expected, got = oracle(state, policy=params), tested(state, policy=params)
        assert_same(expected, got, f"step {step}: ")
        state = expected[0]
        num_ended += int(np.sum(state.done))
    return num_ended


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "engine", "generator"),
    [
        *((name, "native", "threefry") for name in CASES),
        ("CartPole-v1", "native", "philox"),
        ("Breakout", "numpy", "threefry"),
        pytest.param("CartPole-v1", "numpy", "philox", marks=pytest.mark.slow),  # seconds for XLA's program
        pytest.param("Breakout", "native", "philox", marks=pytest.mark.slow),
    ],
)
def test_other_engines_act_as_xla(name, engine, generator):
    env, act, params, extras = made(name)
    ended = assert_acts_as_xla(env, act, params, engine, extras, 40, generator=generator)
    assert ended > 0 or name == "Pendulum-v1"


@pytest.mark.release
def test_one_kernel_serves_all_weights_and_many_steps_equal_many_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    env, act, params, _ = made("CartPole-v1")
    options = {"policy": act, "policy_params": params, "record": ("obs", "action", "log_prob")}
    whole, single = (sim.compile(env, 11, steps, "native", **options) for steps in (20, 1))
    for weights in (params, jax.tree.map(lambda x: -x, params)):
        state = whole.reset(seed=1)
        after, trajectory = whole(state, policy=weights)
        for step in range(20):
            state, row = single(state, policy=weights)
            for x, y in zip(jax.tree.leaves(trajectory), jax.tree.leaves(row), strict=True):
                np.testing.assert_array_equal(x[step], y[0])
        np.testing.assert_array_equal(after.obs, state.obs)
    assert len(list(tmp_path.glob("*.so"))) == 1


@pytest.mark.release
def test_every_width_and_number_of_threads_acts_with_the_same_bits(monkeypatch):
    env, act, params, _ = made("CartPole-v1")
    results = []
    for lanes, threads in ((4, 1), (8, 3), (16, 2)):
        monkeypatch.setattr(native, "lanes", lambda lanes=lanes: lanes)
        rollout = sim.compile(
            env, 45, 30, "native", num_threads=threads, policy=act, policy_params=params, record=("action", "value")
        )
        results.append(jax.tree.leaves(rollout(rollout.reset(seed=2), policy=params)))
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def kinds(params, obs, key):
    """Every kind of use that a kernel makes of shared arrays."""
    x = obs[:3] @ params["few"] + params["number"]
    y = params["turned"] @ jnp.tanh(jnp.concatenate([x, obs, params["row"]]))
    z = jnp.where(params["flags"], jax.nn.relu(y), params["bytes"].astype(jnp.float32) + y)
    picked = params["row"][params["index"]] + params["row"][jnp.argmax(z) % 5] + jnp.exp(params["row"]).sum()
    sorted_row = jnp.sort(params["row"])
    changed = params["row"].at[jnp.argmin(z) % 5].set(z[0])
    value = jnp.dot(z, params["long"]) + picked + jnp.max(z) + changed.sum()
    return (value > 0).astype(jnp.int32), {"z": z, "value": value, "sorted": sorted_row, "count": params["bytes"][2]}


@pytest.mark.release
def test_parameters_of_every_type_and_use_are_read_where_they_are():
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    params = {
        "few": normal(3, 7), "number": np.float32(0.3), "turned": normal(70, 16), "row": normal(5),
        "flags": rng.random(70) < 0.5, "bytes": rng.integers(-100, 100, 70).astype(np.int8), "index": np.int32(3),
        "long": normal(70),
    }  # fmt: skip
    env, extras = sim.make("CartPole-v1"), ("z", "value", "sorted", "count")
    for engine in ("native", "numpy"):
        assert_acts_as_xla(env, kinds, params, engine, extras, 5)


@pytest.mark.whole
def test_other_weights_need_no_other_program():
    env, act, params, _ = made("CartPole-v1")
    traces = []

    def counted(params, obs, key):
        traces.append(1)
        return act(params, obs, key)

    rollout = sim.compile(env, 4, 3, "xla", policy=counted, policy_params=params, record=("value",))
    state = rollout.reset()
    _, first = rollout(state, policy=params)
    num_traces = len(traces)
    other = {**params, "value": jax.tree.map(lambda x: x + 1, params["value"])}
    _, second = rollout(state, policy=other)
    assert len(traces) == num_traces
    assert np.all(second["value"] != first["value"])
    _, nothing = rollout(state, policy=jax.tree.map(lambda x: x * np.float32("nan"), params))
    assert np.all(np.isnan(nothing["value"]))


@pytest.mark.release
def test_the_environment_draws_the_same_numbers_with_a_policy_and_without():
    env, rule = sim.make("Breakout"), sim.policies.constant(np.int32(2))
    record = ("obs", "reward", "terminated")
    alone = sim.compile(env, 6, 50, "xla", record=record)
    led = sim.compile(env, 6, 50, "xla", record=record, policy=rule, policy_params=np.int32(0))
    _, expected = alone(alone.reset(seed=4), np.full((50, 6), 2, np.int32))
    _, got = led(led.reset(seed=4), policy=np.int32(2))
    assert expected["terminated"].any()
    assert_same(expected, got)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_the_policy_sees_the_observation_that_the_last_step_left(autoreset):
    env = sim.make("CartPole-v1")
    rule = sim.policies.scripted(lambda obs: (obs[2] + obs[3] > 0).astype(jnp.int32))
    record = ("obs", "obs_before", "action")
    rollout = sim.compile(env, 5, 30, "xla", policy=rule, record=record, autoreset=autoreset)
    start = rollout.reset(seed=2)
    state, trajectory = rollout(start)
    before = np.concatenate([np.asarray(start.obs)[None], trajectory["obs"][:-1]])
    np.testing.assert_array_equal(trajectory["obs_before"], before)
    np.testing.assert_array_equal(trajectory["action"], before[..., 2] + before[..., 3] > 0)
    np.testing.assert_array_equal(state.obs, trajectory["obs"][-1])


@pytest.mark.whole
def test_a_policy_sees_wide_observations_where_narrow_ones_are_recorded():
    env = sim.make("Breakout")
    rule = sim.policies.scripted(lambda obs: (jnp.sum(obs.astype(jnp.int32)) % 3).astype(jnp.int32))
    wide, bits = (
        sim.compile(env, 3, 9, "xla", policy=rule, record=("obs_before", "action"), narrow_obs=narrow)
        for narrow in (None, "bits")
    )
    (state, expected), (narrowed, got) = wide(wide.reset()), bits(bits.reset())
    np.testing.assert_array_equal(expected["action"], got["action"])
    np.testing.assert_array_equal(np.packbits(expected["obs_before"].reshape(9, 3, -1), axis=-1), got["obs_before"])
    np.testing.assert_array_equal(state.obs, narrowed.obs)


@pytest.mark.whole
def test_parameters_of_environments_and_of_the_policy_go_together():
    env = sim.make("Pendulum-v1")
    _, act, params, _ = made("Pendulum-v1")
    gravity = np.linspace(5, 15, 4).astype(np.float32)
    varied = type(env.default_params)(**{**env.default_params.__dict__, "gravity": gravity})
    options = {"policy": act, "policy_params": params, "record": ("obs", "action")}
    together = sim.compile(env, 4, 6, "xla", params=varied, **options)
    _, trajectory = together(together.reset(), policy=params)
    usual = sim.compile(env, 4, 6, "xla", **options)
    _, plain = usual(usual.reset(), policy=params)
    np.testing.assert_array_equal(plain["action"][0], trajectory["action"][0])
    assert not np.any(np.all(np.asarray(plain["obs"]) == np.asarray(trajectory["obs"]), axis=(0, 2)))


@pytest.mark.release
def test_random_play_draws_every_action_under_both_generators():
    env = sim.make("Breakout")
    for generator in ("threefry", "philox"):
        act = sim.policies.uniform(env)
        rollout = sim.compile(env, 16, 32, "xla", policy=act, record=("action",), generator=generator)
        _, trajectory = rollout(rollout.reset(seed=1))
        shares = np.bincount(np.asarray(trajectory["action"]).ravel(), minlength=3) / 512
        assert np.all(abs(shares - 1 / 3) < 0.1), (generator, shares)


@pytest.mark.whole
def test_log_probabilities_are_those_of_the_recorded_actions():
    env, act, params, _ = made("Pendulum-v1")
    params = {**params, "log_std": np.float32([-0.7])}
    rollout = sim.compile(
        env, 5, 4, "xla", policy=act, policy_params=params, record=("obs_before", "action", "log_prob")
    )
    _, t = rollout(rollout.reset(), policy=params)

    def mean(obs):
        x = obs
        for layer in params["hidden"]:
            x = np.tanh(x @ layer["weights"] + layer["bias"])
        return x @ params["output"]["weights"] + params["output"]["bias"]

    z = (np.asarray(t["action"]) - mean(np.asarray(t["obs_before"]))) / np.exp(-0.7)
    expected = -0.5 * z[..., 0] ** 2 + 0.7 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(t["log_prob"], expected, rtol=1e-4, atol=1e-5)


def test_a_draw_under_a_counter_has_the_probabilities_of_its_logits():
    logits = jnp.log(jnp.asarray([0.1, 0.6, 0.3]))
    keys = jax.vmap(lambda word: policy_key(jnp.stack([word, word]), jnp.uint32(0), "philox"))(jnp.arange(4096))
    drawn = jax.vmap(lambda key: sim.random.categorical(key, logits))(keys)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4096, [0.1, 0.6, 0.3], atol=0.03)


@pytest.mark.whole
def test_a_separate_value_has_hidden_layers_of_its_own():
    env = sim.make("CartPole-v1")
    act = sim.policies.mlp(env, hidden=(8, 8), separate_value=True)
    params, key, obs = act.init(jax.random.key(1)), jax.random.key(2), jnp.array([0.3, -0.2, 0.1, 0.4])

    def played(**changed):
        action, extras = act({**params, **changed}, obs, key)
        return float(extras["value"]), (int(action), float(extras["log_prob"]))

    value, acted = played()
    other = jax.tree.map(lambda x: x + 1, params["hidden"])
    assert played(hidden=other)[0] == value
    assert played(value_hidden=other) != (value, acted)
    assert played(value_hidden=other)[1] == acted
    shared = sim.policies.mlp(env, hidden=(8, 8))
    expected = shared({**params, "hidden": params["value_hidden"]}, obs, key)[1]["value"]
    assert value == float(expected)


BAD = [
    (lambda p: {**p, "extra": 1.0}, r"policy: expected parameters PyTreeDef"),
    (lambda p: {**p, "value": {**p["value"], "bias": np.zeros(2, np.float32)}},
     r"policy\['value'\]\['bias'\]: expected float32\[1\], .* got float32\[2\]; convert it"),
    (lambda p: {**p, "value": {**p["value"], "bias": np.zeros(1)}}, r"expected float32\[1\], .* got float64\[1\]"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), BAD)
def test_parameters_that_do_not_fit_are_refused(change, words):
    env, act, params, _ = made("CartPole-v1")
    rollout = sim.compile(env, 4, 3, "xla", policy=act, policy_params=params)
    with pytest.raises(InvalidInput, match=words) as error:
        rollout(rollout.reset(), policy=change(params))
    assert "\n" not in str(error.value)


def test_actions_and_policies_do_not_mix():
    env, act, params, _ = made("CartPole-v1")
    led = sim.compile(env, 4, 3, "xla", policy=act, policy_params=params)
    alone = sim.compile(env, 4, 3, "xla", record=())
    actions = np.zeros((3, 4), np.int32)
    with pytest.raises(InvalidInput, match="actions: expected none, since the policy acts"):
        led(led.reset(), actions, policy=params)
    with pytest.raises(InvalidInput, match=r"policy_params: expected those .* policy\.init\(key\) gives them"):
        sim.compile(alone.env, 4, 3, policy=sim.policies.linear(alone.env))
    with pytest.raises(InvalidInput, match="policy: expected none, since this rollout has no policy"):
        alone(alone.reset(), actions, policy=params)
    with pytest.raises(InvalidInput, match=r"state\.obs: expected observations of 4 environments"):
        led(alone.reset(), policy=params)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda p, obs, key: obs, r"policy: expected an action int32\[\], .* CartPole-v1 gives, got float32\[4\]"),
        (lambda p, obs, key: jnp.int32([0]), r"got int32\[1\]; reshape it, as with action\.reshape\(\(\)\)"),
        (lambda p, obs, key: jnp.int32([0, 1]), r"got int32\[2\]; give as many numbers"),
        (lambda p, obs, key: jnp.float32(0), r"got float32\[\]; cast it, as with action\.astype\('int32'\)"),
        (lambda p, obs, key: {"a": jnp.int32(0)}, "policy: expected an action like those of CartPole-v1"),
        (lambda p, obs, key: (jnp.int32(0), {"reward": obs}), "expected extras of names other than .* got 'reward'"),
        (lambda p, obs, key: (jnp.int32(0), obs), "expected an action, or .* got extras of type"),
        (
            lambda p, obs, key: jnp.int32(obs[0] > 0 and 1),
            r"`policy` cannot be traced \(.*test_policies_in_the_loop\.py:\d+\)",
        ),
    ],
)
def test_a_policy_that_does_not_fit_gives_one_sentence(policy, words):
    with pytest.raises(CompileError, match=words) as error:
        sim.compile(sim.make("CartPole-v1"), 4, 3, "xla", policy=policy)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("engine", ["xla", "numpy", "native"])
def test_parameters_of_64_bits_are_taken_as_jax_takes_them(engine):
    def weighed(params, obs, key):
        return jnp.int32(1), {"sum": obs @ params["w"] + params["n"].sum(), "seen": params}

    wide = {"w": np.linspace(0.1, 2, 4), "n": np.arange(3), "x": 0.1}  # NumPy's own types
    narrow = {"w": wide["w"].astype(np.float32), "n": wide["n"].astype(np.int32), "x": np.float32(0.1)}
    swapped = {"w": wide["w"].astype(">f8"), "n": wide["n"].astype(">i8"), "x": np.float64(0.1)}
    options = {"policy": weighed, "record": ("sum", "seen")}
    expected = sim.compile(sim.make("CartPole-v1"), 3, 2, "xla", policy_params=narrow, **options)
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, engine, policy_params=wide, **options)
    state = expected.reset(4)
    for given in (wide, narrow, swapped):
        assert_same(expected(state, policy=narrow)[1], rollout(state, policy=given)[1])
    with pytest.raises(InvalidInput, match=r"policy\['n'\]: expected numbers that fit int32, got 1099511627776"):
        rollout(state, policy={**wide, "n": wide["n"] + 2**40})


def test_keys_among_a_policys_parameters_are_refused_with_what_to_give():
    def drawn(words, obs, key):
        return jax.random.bernoulli(jax.random.wrap_key_data(words)).astype(int)

    env, key = sim.make("CartPole-v1"), jax.random.key(3)
    with pytest.raises(InvalidInput, match=r"policy_params: expected numbers, got typed random keys; give their words"):
        sim.compile(env, 2, 3, "xla", policy=drawn, policy_params=key)
    rollout = sim.compile(env, 2, 3, "xla", policy=drawn, policy_params=jax.random.key_data(key))
    with pytest.raises(InvalidInput, match=r"policy: expected numbers, got typed random keys; give their words"):
        rollout(rollout.reset(), policy=key)


@pytest.mark.parametrize("nothing", [(), None, {}])
def test_parameters_of_a_policy_that_has_none_may_be_left_out_of_a_call(nothing):
    def right(params, obs, key):
        return jnp.int32(1)

    rollout = sim.compile(sim.make("CartPole-v1"), 2, 3, "numpy", policy=right, policy_params=nothing)
    state = rollout.reset()
    assert_same(rollout(state), rollout(state, policy=nothing))


def test_a_network_for_other_observations_says_which_it_has_weights_for():
    env, other = sim.make("CartPole-v1"), sim.make("Pendulum-v1")
    told = "policy: expected observations of 3 numbers, for which it has weights, got 4; make the policy, and its param"
    for hidden in ((), (8,)):
        weights = sim.policies.mlp(other, hidden).init(jax.random.key(0))
        for act in (sim.policies.mlp(env, hidden), sim.policies.mlp(other, hidden)):
            with pytest.raises(CompileError, match=told):
                sim.compile(env, 2, 1, "numpy", policy=act, policy_params=weights)


def test_what_cannot_be_asked_for_is_refused():
    env, act, params, _ = made("CartPole-v1")
    with pytest.raises(InvalidInput, match=r"record: expected names from .*log_prob, value, got 'q_values'"):
        sim.compile(env, 4, 3, "xla", policy=act, policy_params=params, record=("q_values",))
    with pytest.raises(InvalidInput, match=r"record: expected distinct names .*with policy= also action"):
        sim.compile(env, 4, 3, "xla", record=("action",))
    with pytest.raises(InvalidInput, match="policy_params: expected none without a policy"):
        sim.compile(env, 4, 3, "xla", policy_params=params)
    with pytest.raises(InvalidInput, match=r"policy: expected a function \(params, obs, key\) -> action"):
        sim.compile(env, 4, 3, "xla", policy="mlp")
    for wrong, words in (({"head": "gaussian"}, "head: expected categorical or epsilon_greedy for discrete"),
                         ({"head": "softmax"}, "head: expected None or one of"),
                         ({"activation": "gelu"}, "activation: expected one of tanh, relu"),
                         ({"head": "epsilon_greedy", "separate_value": True}, "separate_value: expected a head"),
                         ({"hidden": 64}, r"hidden: expected at least 1 unit in each layer, as \(64, 64\), got 64"),
                         ({"hidden": (64.0,)}, "hidden: expected at least 1 unit"),
                         ({"hidden": (8, 0)}, "hidden: expected at least 1 unit")):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            sim.policies.mlp(env, **wrong)


@pytest.mark.whole
def test_a_policy_may_look_ahead_by_a_rollout_of_xla_and_is_told_so_of_another():
    env, looks = sim.make("CartPole-v1"), {}
    for engine in ("native", "xla"):
        ahead = sim.compile(env, 2, 3, engine)
        start = ahead.reset(seed=0)

        def look(params, obs, key, ahead=ahead, start=start):
            here = jax.tree.map(
                lambda x, y: jnp.broadcast_to(x, 2).astype(y.dtype), (*obs, 0), tuple(jax.tree.leaves(start.env))
            )
            state = dataclasses.replace(start, env=jax.tree.unflatten(jax.tree.structure(start.env), here), obs=None)
            _, seen = ahead(state, jnp.broadcast_to(jnp.arange(2, dtype=jnp.int32), (3, 2)))
            return jnp.argmin(jnp.abs(seen["obs"][-1, :, 2])).astype(jnp.int32)

        looks[engine] = look
    with pytest.raises(CompileError, match='`ffi_call`: of rollouts call one of engine="xla" there'):
        sim.compile(env, 3, 20, policy=looks["native"])
    played = [sim.compile(env, 3, 20, engine, policy=looks["xla"], record=("action",)) for engine in ("native", "xla")]
    actions = [np.asarray(rollout(rollout.reset(seed=1))[1]["action"]) for rollout in played]
    np.testing.assert_array_equal(*actions)
    assert set(np.unique(actions[0])) == {0, 1}
