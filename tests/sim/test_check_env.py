"""`check_env`: one broken environment per fault, told with what to change; good ones pass in silence."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from breaking import Good, changed, refused, with_result

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.random_play import outside
from drivetrain.sim.registry import ENVIRONMENTS
from drivetrain.sim.spaces import Box, Discrete


@pytest.mark.release
def test_a_good_environment_passes_in_silence(capsys):
    assert sim.check_env(Good()) is None
    assert capsys.readouterr().out == ""


@pytest.mark.release
def test_an_environment_of_ours_and_one_of_gymnax_pass():
    sim.check_env(sim.make("MountainCar-v0"))
    pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    sim.check_env(sim.from_gymnax("FrozenLake-misc"))


@pytest.mark.slow  # XLA takes seconds for each
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_our_environments_pass(name):
    sim.check_env(sim.make(name))


OUTSIDE = {"MemoryChain-bsuite": "0 to 2 at [2], got -1", "MetaMaze-misc": "0 to 1 at [13], got 10",
           "GaussianBandit-misc": "0 to 100 at [3], got -1"}  # fmt: skip
"""Of gymnax: what these declare, and what they observe."""


@pytest.mark.slow  # XLA takes minutes to compile all of them
@pytest.mark.timeout(600)
def test_every_environment_of_gymnax_passes_but_those_that_observe_what_they_do_not_declare():
    gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    faults = {}
    for name in set(gymnax.registered_envs) - {"MNISTBandit-bsuite"}:  # which is a download
        try:
            sim.check_env(sim.from_gymnax(name))
        except CompileError as error:
            faults[name] = str(error)
    assert faults.keys() == OUTSIDE.keys(), faults
    assert all(f"outside observation_space: expected {OUTSIDE[name]}" in faults[name] for name in faults)


def test_a_missing_method_is_named():
    refused(object(), "without reset, step, action_space", InvalidInput)
    env = type("Blind", (), {"reset": 0, "step": 0, "action_space": 0, "default_params": None})()
    refused(env, r"has no observation_space\(params\): give one of drivetrain.sim.spaces", InvalidInput)
    old = type("Old", (), {"step_env": 0, "reset_env": 0})()
    refused(old, "no is_truncated: derive it from gymnax 1.0", InvalidInput)


def test_a_wrong_number_of_results_is_counted():
    refused(changed(step=lambda self, *a: Good.step(self, *a)[:5]), "must give 6 values, obs, state, .* got 5")
    refused(changed(reset=lambda self, *a: Good.reset(self, *a)[1][0]), "must give two values.* got one ")


def test_a_python_branch_on_a_traced_value_names_the_line_and_the_remedy():
    def step(self, key, state, action, params):
        return Good.step(self, key, state, action if state[0] > 0 else 1 - action, params)

    refused(changed(step=step), r"`step` cannot be traced \(.*test_check_env.py:\d+\).*use jnp.where")


def test_an_error_that_says_nothing_is_told_by_its_kind_and_by_who_raised_it():
    def is_over(state):  # as a base class leaves it to whoever derives from it
        raise NotImplementedError

    def step(self, key, state, action, params):
        return *Good.step(self, key, state, action, params)[:3], is_over(state), False, {}

    told = r"`step` cannot be traced \(.*test_check_env.py:\d+\): NotImplementedError in `is_over`$"
    refused(changed(step=step), told)


def test_a_state_or_an_observation_of_other_types_after_a_step_is_told_with_both():
    refused(
        with_result(1, lambda state: (state[0], state[1] * 1.0)), r"state's \[1\] is int32\[\] .* float32\[\] after"
    )
    refused(
        with_result(0, lambda obs: jnp.tile(obs, 2)), r"observation's .* float32\[1\] after `reset` and float32\[2\]"
    )


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (2, lambda x: x[None], r"reward as one number, got float32\[1\]: sum it"),
        (3, lambda x: x * 1.0, r"terminated as one bool, got float32\[\]: compare, or use"),
        (4, lambda x: jnp.stack([x, x]), r"truncated as one bool, got bool\[2\]"),
    ],
)
def test_results_that_are_no_scalars_of_their_kind_are_named(index, change, message):
    refused(with_result(index, change), message)


def test_an_info_that_is_no_dictionary_is_told():
    refused(with_result(5, lambda info: None), "`step` must give info as a dict, got a NoneType")


def test_a_text_in_an_info_is_told_with_its_place_when_it_is_compiled():
    told = r"`step` must give numbers and arrays in info, got 'fallen' as info\['end'\]\['why'\]: leave it out"
    with pytest.raises(CompileError, match=told):
        sim.compile(with_result(5, lambda info: {"end": {"why": "fallen"}}), 2, 1)


def test_an_observation_of_nothing_is_told():
    def reset(self, key, params):
        return None, Good.reset(self, key, params)[1]

    refused(changed(reset=reset), "`reset` must give an observation, a number or more, got none: None")


def test_a_space_that_does_not_draw_with_jax_is_told():
    def space(self, params):
        return type("Foreign", (), {"sample": lambda self, key: np.random.default_rng(int(key)).integers(2)})()

    refused(changed(action_space=space), "`action_space` cannot be traced")
    told = (
        r"'Discrete' object is not callable; action_space\(params\) gives something whose sample\(key\) draws with JAX"
    )
    refused(changed(action_space=Discrete(2)), told)


def test_a_box_holds_arrays_alone():
    for x in ({"x": np.zeros(1)}, [np.zeros(1), np.zeros(2)], "text", None):
        assert not Box(-9.0, 9.0, (1,)).contains(x)
        assert not Discrete(2).contains(x)
    assert "is not in observation_space" in outside(Box(-9.0, 9.0, (1,)), "step", {"x": np.zeros((3, 16, 1))})[0]


def test_a_key_that_is_used_twice_is_told_with_the_line():
    def step(self, key, state, action, params):
        obs, after, reward, *rest = Good.step(self, key, state, action, params)
        return obs, after, reward + jax.random.uniform(key), *rest

    refused(changed(step=step), r"`step` cannot be traced \(.*test_check_env.py:\d+\): a key is used twice.*split it")

    def reset(self, key, params):
        _, other = jax.random.split(key)
        obs, state = Good.reset(self, key, params)
        return obs + jax.random.uniform(other), state

    refused(changed(reset=reset), r"`reset` cannot be traced \(.*breaking.py:\d+\): a key is used twice")


@pytest.mark.whole
def test_a_step_that_resets_by_itself_is_told():
    def step(self, key, state, action, params):
        key, key_reset = jax.random.split(key)
        obs, after, reward, terminated, truncated, info = Good.step(self, key, state, action, params)
        fresh_obs, fresh = self.reset(key_reset, params)
        done = terminated | truncated
        after = jax.tree.map(lambda a, b: jnp.where(done, a, b), fresh, after)
        return jnp.where(done, fresh_obs, obs), after, reward, terminated, truncated, info

    refused(changed(step=step), "resets by itself.*leave resets to `sim.compile")


LARGE = """
import resource, sys
sys.path.insert(0, {folder!r})
import jax.numpy as jnp
from breaking import Good
from drivetrain import sim

class Large(Good):
    def reset(self, *given):
        obs, state = super().reset(*given)
        return obs, (state, jnp.zeros(50_000))

    def step(self, key, state, *given):
        obs, after, *rest = super().step(key, state[0], *given)
        return obs, (after, state[1] + 1), *rest

sim.check_env(Large(), num_steps=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sim.check_env(Large())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
"""Says how many KiB of memory it takes to play more steps of a state of 200 kB."""


@pytest.mark.whole
def test_large_states_are_not_kept_of_every_step():
    code = LARGE.format(folder=str(Path(__file__).parent))
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(said) < 300_000  # all of them are 1.9 GB


def test_observations_outside_the_declared_space_are_told_with_the_number():
    obs = np.linspace(-1, 1, 3 * 16, dtype=np.float32).reshape(3, 16, 1)
    told = "outside observation_space: expected -0.5 to 0.5 at [0], got -1 (step 0, environment 0 of 16): widen"
    assert told in outside(Box(-0.5, 0.5, (1,)), "step", obs)[0]
    assert "shape (1,), and observation_space says (2,)" in outside(Box(-9.0, 9.0, (2,)), "step", obs)[0]
    assert "is not in observation_space" in outside(Discrete(3), "step", obs)[0]
    assert "got nan" in outside(Box(-9.0, 9.0, (1,)), "step", obs * np.nan)[0]
    assert outside(Box(-1.0, 1.0, (1,)), "step", obs * np.float32(1 + 1e-7)) == []
    narrow = changed(observation_space=lambda self, params: Box(-2.0, 2.0, (1,)))
    refused(narrow, "an observation of `step` is outside observation_space: expected -2 to 2 at")


def of_parts(obs, space):
    """The good environment, which observes in parts."""

    def reset(self, key, params):
        x, state = Good.reset(self, key, params)
        return obs(x, state), state

    def step(self, *arguments):
        x, after, *rest = Good.step(self, *arguments)
        return obs(x, after), after, *rest

    return changed(reset=reset, step=step, observation_space=lambda self, params: space)


WHERE = Box(-9.0, 9.0, (1,))


@pytest.mark.parametrize(
    ("obs", "space", "fault"),
    [
        (lambda x, s: {"x": x, "t": s[1]}, {"x": WHERE, "t": Discrete(22)}, None),
        (lambda x, s: (x, (x, s[1])), (WHERE, [WHERE, Discrete(22)]), None),
        (lambda x, s: {"x": x}, type("Several", (), {"spaces": {"x": WHERE}})(), None),
        (
            lambda x, s: {"x": x, "t": s[1]},
            {"x": Box(-2.0, 2.0, (1,)), "t": Discrete(22)},
            r"outside observation_space\['x'\]: expected -2 to 2 at \[0\], got ",
        ),
        (lambda x, s: (x, (x, s[1])), (WHERE, (WHERE, Discrete(3))), r"is not in observation_space\[1\]\[1\]: change"),
        (lambda x, s: (x, x), (WHERE,), r"have the parts \[0, 1\], and observation_space says a tuple of \[0\]"),
        (lambda x, s: x, {"x": WHERE}, r"have the parts PyTreeDef\(\*\), .* says a dictionary of \['x'\]: declare"),
        (
            lambda x, s: {"x": x},
            {"x": None},
            r"observation_space\(params\)\['x'\] gives a NoneType .* one of drivetrain.sim.spaces",
        ),
        (
            lambda x, s: {"x": x},
            None,
            r"gives a NoneType .*, or a dictionary or a tuple of them where an observation has",
        ),
    ],
)
def test_observations_in_parts_are_held_against_a_space_of_each(obs, space, fault):
    env = of_parts(obs, space)
    if fault is None:
        sim.check_env(env)
    else:
        refused(env, fault)


def test_a_space_that_cannot_be_asked_is_told():
    for space in (object(), type("Half", (), {"low": -1.0, "high": 1.0})()):
        kind = type(space).__name__
        env = changed(observation_space=lambda self, params, space=space: space)
        refused(env, rf"observation_space\(params\) gives a {kind} without `contains\(obs\)`.*one of drivetrain.sim.sp")


def test_every_fault_is_told_at_once():
    def step(self, key, state, action, params):
        self.last = object()
        obs, after, reward, *rest = Good.step(self, key, state, action, params)
        return obs, after, reward + jax.random.uniform(key), *rest

    refused(changed(step=step, last=None), r"(?s)- `step` is impure: .*'last'.*\n- `step` cannot be traced")


def test_an_episode_may_end_where_every_episode_begins():
    class Home:
        name = "Home"
        default_params = None

        def reset(self, key, params):
            return jnp.zeros(1), jnp.int32(0)

        def step(self, key, state, action, params):
            place = state + 2 * action - 1
            return place[None].astype(jnp.float32), place, jnp.float32(0), place == 0, False, {}

        def action_space(self, params):
            return Discrete(2)

        def observation_space(self, params):
            return Box(-1000.0, 1000.0, (1,))

    sim.check_env(Home())


@pytest.mark.release
def test_an_observation_that_is_none_of_a_choice_or_no_number_is_told():
    def of(value):
        class Between(Good):
            def reset(self, key, params):
                return jnp.float32(value), Good.reset(self, key, params)[1]

            def step(self, key, state, action, params):
                _, *others = Good.step(self, key, state, action, params)
                return jnp.float32(value), *others

            def observation_space(self, params):
                return Discrete(3)

        return Between()

    for value in (0.5, np.nan):
        refused(of(value), f"an observation of `reset`, {value}, is not in observation_space")


def test_what_a_space_contains_is_asked_of_anything():
    assert [Discrete(2).contains(x) for x in (0.5, -0.5, 1.9, np.nan, 2, "1")] == [False] * 6
    assert all(Discrete(2).contains(x) for x in (0, 1, np.int8(1), np.bool_(True)))
    box = Box(np.zeros(3), np.ones(3), (3,))
    assert not any(box.contains(x) for x in (np.zeros(2), np.zeros((1, 3)), 0.5, np.full(3, np.nan), "a"))
    assert box.contains(np.zeros(3))
    assert box.contains(jnp.ones(3, jnp.bfloat16))
    assert not box.contains(jnp.full(3, 1.5, jnp.bfloat16))


def test_a_space_that_raises_is_told_with_the_authors_line():
    def missing(self, params):
        return Box(0.0, self.limit, (1,))

    refused(changed(observation_space=missing), r"`observation_space` .*test_check_env.py:\d+\).* no attribute 'limit'")
    says = "has bounds of the shapes (3,) and (), and says (1,): give numbers, or arrays of that shape"
    told = f"observation_space['x'] {says}"
    assert outside({"x": Box(np.zeros(3), 1.0, (1,))}, "step", {"x": np.zeros((2, 16, 1))}) == [told]


def test_a_number_of_steps_that_nobody_can_play_is_refused():
    for number in (0, -1, 2.5):
        with pytest.raises(InvalidInput, match="num_steps: expected "):
            sim.check_env(Good(), num_steps=number)
    with pytest.raises(InvalidInput, match="seed: expected "):
        sim.check_env(Good(), seed=-1)
