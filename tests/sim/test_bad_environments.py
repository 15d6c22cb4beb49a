"""What cannot be compiled is told in one sentence, with the line and the remedy, before anything runs."""

import copy
import dataclasses
import importlib.util
import pickle
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Applied, random_actions
from jax.experimental import io_callback

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput, MissingExtra
from drivetrain.sim.engines import toolchain
from drivetrain.sim.engines.arrays import Form
from drivetrain.sim.engines.native import forms
from drivetrain.sim.engines.recycled import Recycled

NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


def compiled(function, engine="native"):
    return sim.compile(Applied(function, NUMBER), 2, 1, engine, autoreset="disabled")


def test_a_python_branch_on_a_traced_value_names_the_line():
    with pytest.raises(CompileError, match=r"cannot be traced \(.*test_bad_environments.py:\d+\).*jax.lax.cond"):
        compiled(lambda x: x if x > 0 else -x, "xla")


def test_numpy_on_a_traced_value_names_the_remedy():
    with pytest.raises(CompileError, match=r"only known when it runs: compute it in jax.numpy"):
        compiled(lambda x: jnp.zeros(()) + np.sin(x), "xla")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            lambda x: sum(range(x.astype(int))) + x,
            r"test_bad_environments.py:\d+\): it needs a number in Python .*range",
        ),
        (lambda x: x * [1, 2][(x > 0).astype(int)], r"an index of a list\) .* compute it in jax.numpy"),
        (lambda x: jnp.ones(3)[jnp.arange(3) > x].sum(), r"elements by a mask.*use jnp.where\(mask, x, 0\)"),
        (lambda x: jnp.ones(3)[: x.astype(int)].sum(), r"slices by a number .* use jax.lax.dynamic_slice"),
        (lambda x: jnp.where(x > jnp.ones(3))[0].sum() + x, r"\(.*test_bad_environments.py:\d+\): the size .*size= of"),
        (lambda x: jnp.unique(jnp.ones(3) * x).sum(), "the size of an array depends on a value .*size= of .*unique"),
        (lambda x: jnp.arange(x.astype(int)).sum() + x, r"the size of an array .*\(jnp.arange\(most\) < n\)"),
        (lambda x: jnp.zeros(x.astype(int)).sum(), "the size of an array depends on a value"),
        (lambda x: jax.random.split(jax.random.key(0), x.astype(int)).shape[0] * x, "the size of an array depends"),
        (lambda x: jax.lax.scan(lambda c, _: (c, c), x, None, x.astype(int))[0], "scan .* use jax.lax.fori_loop"),
        (lambda x: x + float(x), r"it needs a number in Python .* compute it in jax.numpy"),
        (lambda x: {0: x}[x], "looks something up .* index an array instead"),
        (lambda x: jnp.round(x > 0) * x, r"\(.*test_bad_environments.py:\d+\): ValueError"),
        (lambda x: {"x": x}["y"], r"\(.*test_bad_environments.py:\d+\): KeyError: 'y'"),
        (lambda x: "text", "it gives a str, and JAX passes on arrays alone"),
    ],
)
def test_what_jax_cannot_trace_is_told_with_the_line_and_the_remedy(function, told):
    with pytest.raises(CompileError, match=told):
        compiled(function, "xla")


@pytest.mark.parametrize(
    ("body", "told"),
    [("jnp.abs(jnp.fft.fft(x[None])).sum()", 'engines other than "xla"'), ("{'x': x}['y']", r"`\w+` cannot be traced")],
)
def test_what_a_library_cannot_do_is_told_with_the_authors_line(body, told, tmp_path):
    installed = tmp_path / "site-packages" / "library.py"
    installed.parent.mkdir()
    installed.write_text(f"import jax.numpy as jnp\n\ndef transformed(x):\n    return {body}\n")
    spec = importlib.util.spec_from_file_location("library", installed)
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    with pytest.raises(CompileError, match=told) as error:
        compiled(lambda x: library.transformed(x) + 1)
    assert f"{__file__}:" in str(error.value)


def test_text_in_a_state_is_told_with_its_place():
    env = Other(of_reset=lambda x: (x[0], {"name": "text"}))
    with pytest.raises(CompileError, match=r"it gives a str at output component \[1\]\['name'\], and JAX passes on"):
        sim.compile(env, 1, 1, "xla")


def test_keys_of_another_default_are_told():
    with jax.default_prng_impl("rbg"), pytest.raises(CompileError, match="jax_default_prng_impl is another than three"):
        compiled(lambda x: x, "xla")


def test_a_class_in_place_of_an_environment_is_told():
    with pytest.raises(InvalidInput, match=r"got the class Applied: make one, Applied\(\)"):
        sim.compile(Applied, 1, 1)


def test_an_unsupported_primitive_is_named_with_the_line_and_a_suggestion():
    def function(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.float32), x)

    with pytest.raises(
        CompileError, match=r"test_bad_environments.py:\d+: .*`pure_callback`.*cannot call back into Python"
    ):
        compiled(function)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda *args: jax.pure_callback(*args), r"`pure_callback` .*: give it vmap_method=\"sequential\""),
        (lambda *args: io_callback(*args, ordered=True), "`io_callback` .*: leave out ordered=True"),
    ],
)
def test_a_call_into_python_that_the_oracle_cannot_make_for_all_environments_is_told_with_its_line(call, told):
    def function(x):
        def inner(x):
            return call(lambda v: v, NUMBER, x)

        return jax.lax.cond(x > 0, inner, jnp.negative, x)

    with pytest.raises(CompileError, match=rf"test_bad_environments.py:\d+: engine \"xla\" steps all .* {told}"):
        compiled(function, "xla")


def test_a_call_into_python_that_is_made_one_by_one_is_the_oracles():
    rollout = compiled(lambda x: jax.pure_callback(lambda v: v * 2, NUMBER, x, vmap_method="sequential"), "xla")
    _, trajectory = rollout(rollout.reset(), (np.float32([[1, 3]]),))
    np.testing.assert_array_equal(trajectory["obs"], [[2, 6]])


class Holding(Applied):
    """Its state is what a function makes of the key of its start."""

    name = "Holding"

    def __init__(self, held):
        super().__init__(lambda x: x, NUMBER)
        self.held = held

    def reset(self, key, params):
        return super().reset(key, params)[0], self.held(key)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_state_that_other_engines_cannot_hold_is_told_with_the_environments_name(engine):
    told = 'Holding: engines other than "xla" do not support a state, .* of type complex64: use one of bool'
    with pytest.raises(CompileError, match=told):
        sim.compile(Holding(lambda key: jnp.complex64(0)), 2, 1, engine, autoreset="disabled")


def test_an_unsupported_type_is_named():
    with pytest.raises(CompileError, match=r"a value of type bfloat16: use one of bool, int8"):
        compiled(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32))
    table = np.ones(3, jnp.bfloat16)
    with pytest.raises(CompileError, match=r"test_bad_environments.py:\d+: .* a constant of type bfloat16: use one"):
        compiled(lambda x: x + (x * table).sum())
    with pytest.raises(CompileError, match=r"a state, or what is recorded, of type float16: use one of"):
        compiled(lambda x: x.astype(jnp.float16))
    with pytest.raises(CompileError, match=r"the primitive `exp` of type float16: convert to float32 before"):
        compiled(lambda x: jnp.exp(x.astype(jnp.float16)).astype(jnp.float32))


class Growing(Applied):
    def step(self, key, state, action, params):
        return action[0], jnp.zeros(3), jnp.float32(0), False, False, {}


def test_a_state_that_changes_its_shape_is_told_with_both_shapes():
    env = Growing(lambda x: x, NUMBER)
    with pytest.raises(CompileError, match=r"int32\[\] after `reset` and float32\[3\] after `step`"):
        sim.compile(env, 2, 1, "xla")


class Other(Applied):
    """Gives what the function makes of the results of a step, or of a start."""

    def __init__(self, of_step=lambda x: x, of_reset=lambda x: x):
        super().__init__(lambda x: x, NUMBER)
        self.of_step, self.of_reset = of_step, of_reset

    def reset(self, key, params):
        return self.of_reset(super().reset(key, params))

    def step(self, key, state, action, params):
        return self.of_step(super().step(key, state, action, params))


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (
            Other(lambda x: (*x[:2], jnp.zeros(1), *x[3:])),
            r"`step` must give reward as one number, got float32\[1\]: sum it",
        ),
        (Other(lambda x: (*x[:2], [x[0], x[0]], *x[3:])), r"reward as one number, got PyTreeDef\(\[\*, \*\]\): sum it"),
        (Other(lambda x: (*x[:2], None, *x[3:])), r"reward as one number, got PyTreeDef\(None\): sum it"),
        (Other(lambda x: x[:5]), "`step` must give 6 values, obs, state, reward, terminated, truncated, info, got 5"),
        (Other(lambda x: None), "`step` must give 6 values.* got one NoneType"),
        (Other(of_reset=lambda x: x[0]), "`reset` must give two values, obs and state, got one "),
        (Other(lambda x: (*x[:3], jnp.zeros(2, bool), *x[4:])), r"terminated as one bool, got bool\[2\]: use .any"),
        (Other(lambda x: (*x[:4], jnp.zeros(2, bool), x[5])), r"truncated as one bool, got bool\[2\]: use .any"),
        (
            Other(lambda x: (x[0].astype(int), *x[1:])),
            r"observation's only leaf is float32\[\] .* int32\[\] after `step`",
        ),
    ],
)
@pytest.mark.parametrize("autoreset", ["same_step", "disabled"])
def test_results_of_another_form_are_told_with_what_is_expected(env, told, autoreset):
    with pytest.raises(CompileError, match=told):
        sim.compile(env, 2, 1, "xla", autoreset=autoreset)


class Impure(Applied):
    kept = None

    def step(self, key, state, action, params):
        obs = action[0] if self.kept is None else self.kept + action[0]
        self.kept = action[0]
        return obs, state, jnp.float32(0), False, False, {}


def test_an_impure_environment_is_told_so():
    env = Impure(lambda x: x, NUMBER)
    with pytest.raises(CompileError, match=r"is impure: it leaves a traced value in the attribute 'kept'"):
        sim.compile(env, 2, 1, "xla")
    with pytest.raises(CompileError, match="is impure: it uses a value that an earlier trace left"):
        sim.compile(env, 2, 1, "xla")
    with pytest.raises(CompileError, match="is impure: it leaves a traced value in the attribute 'kept'"):
        sim.compile(Impure(lambda x: x, NUMBER), 2, 1, "xla", narrow_obs="bool")


def test_attributes_that_are_no_pytrees_are_looked_into():
    env = Impure(lambda x: x, NUMBER)
    env.kept, env.tables, env.rooms = 1, {None: 0, "a": [1]}, []
    env.rooms.append(env.rooms)
    env.step = lambda key, state, action, params: (action[0], state, 0.0, False, False, {})
    assert sim.compile(env, 2, 1, "xla", record=("reward",)).settings.num_envs == 2
    env.step = lambda key, *rest: (env.tables["a"].append(key), Applied.step(env, key, *rest))[1]
    with pytest.raises(CompileError, match="is impure: it leaves a traced value in the attribute 'tables'"):
        sim.compile(env, 2, 1, "xla")


def test_a_huge_environment_is_told_its_bytes(monkeypatch):
    monkeypatch.setattr(forms, "MOST_STACK_NBYTES", 100)
    with pytest.raises(CompileError, match=r"needs \d+ bytes while it steps, 0 of them for .* and 100 for the rest"):
        compiled(lambda x: jnp.cumsum(jnp.arange(200) * x)[3:].sum() + jnp.sort(jnp.arange(100.0) * x))
    monkeypatch.setattr(forms, "MOST_HEAP_NBYTES", 100)
    with pytest.raises(CompileError, match=r", 1200 of them for arrays .* and a native kernel has 100 for these and"):
        compiled(lambda x: jnp.cumsum(jnp.arange(300) * x)[3:].sum() + x)


def test_without_a_compiler_the_remedy_is_named(monkeypatch):
    toolchain.compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompileError, match=r"needs? a C.. compiler, and found no no-such-compiler"):
        compiled(lambda x: x + 1)
    toolchain.compiler.cache_clear()


def test_a_damaged_kernel_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    compiled(lambda x: x + 2)
    (kept,) = tmp_path.glob("*.so")
    whole = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(whole[:1000])
    assert not toolchain.is_whole(kept)
    compiled(lambda x: x + 2)
    assert toolchain.is_whole(kept)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="set DRIVETRAIN_CACHE to a folder"):
        compiled(lambda x: x + 3)


def test_a_compiler_that_compiles_nothing_is_told_as_the_callers(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    toolchain.compiler.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"^CXX=false does not compile C\+\+17 here: exit code 1.*; set CXX to"):
            compiled(lambda x: x + 5)
    finally:
        toolchain.compiler.cache_clear()


def test_a_full_disk_is_told_as_that(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    refuses = "ld returned 1 exit status"
    monkeypatch.setattr(toolchain, "refusal", lambda _, source: None if source == toolchain.SMALLEST else refuses)
    with pytest.raises(CompileError, match="refuses a generated kernel: ld returned 1"):
        compiled(lambda x: x + 4)
    full = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(CompileError, match=r"the disk of .* is full, with 4096 bytes free; make room"):
        compiled(lambda x: x + 4)


def test_arguments_are_checked_one_by_one():
    env = sim.make("CartPole-v1")
    for arguments, message in [
        ({"num_envs": 0, "num_steps": 1}, "num_envs: expected at least 1, got 0"),
        ({"num_envs": 2.0, "num_steps": 1}, r"num_envs: expected an integer of at least 1, got 2\.0"),
        ({"num_envs": 1, "num_steps": "4"}, "num_steps: expected an integer of at least 1, got '4'"),
        (
            {"num_envs": 1, "num_steps": 1, "num_threads": True},
            "num_threads: expected an integer .* got True",
        ),
        ({"num_envs": 1, "num_steps": 1, "record": None}, r"record: expected names, as \(\), got None"),
        ({"num_envs": 1, "num_steps": 1, "engine": "opencl"}, "engine: expected one of xla, native, cuda, numpy"),
        ({"num_envs": 1, "num_steps": 1, "record": ("obs", "rewards")}, "record: expected distinct names"),
        ({"num_envs": 1, "num_steps": 1, "autoreset": "never"}, "autoreset: expected one of same_step"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            sim.compile(env, **arguments)
    with pytest.raises(InvalidInput, match=r"without reset, step.*one of another library needs an adapter"):
        sim.compile(object(), 1, 1)
    with pytest.raises(InvalidInput, match="did you mean 'CartPole-v1'"):
        sim.make("CartPole-v0")


@pytest.mark.parametrize("seed", [1.5, None, "1", [1, 2], np.float32(1), np.array([1, 2])])
def test_a_start_from_what_is_no_seed_is_refused(seed):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "numpy")
    with pytest.raises(InvalidInput, match="seed: expected an integer, got "):
        rollout.reset(seed)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, np.int64(-1), np.array(2**40)])
def test_a_start_from_a_seed_that_would_be_that_of_another_is_refused(seed):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "numpy")
    with pytest.raises(InvalidInput, match="seed: expected one integer from 0 to 4294967295, got "):
        rollout.reset(seed)


@pytest.mark.parametrize("game", ["Breakout", "Pong", "Snake"])
def test_a_board_is_packed_or_not(game):
    assert type(sim.make(game, packed=False).board) is not type(sim.make(game, packed=True).board)
    with pytest.raises(InvalidInput, match="packed: expected True or False, got 'no'"):
        sim.make(game, packed="no")


@pytest.mark.parametrize("info", [None, [1]])
def test_an_info_that_is_no_dictionary_is_told_when_it_is_compiled(info):
    class Telling(type(sim.make("CartPole-v1"))):
        def step(self, *arguments):
            return (*super().step(*arguments)[:-1], info)

    told = f"`step` must give info as a dict, got a {type(info).__name__}: give {{}} where there is none"
    with pytest.raises(CompileError, match=told):
        sim.compile(Telling(), 2, 1)


def test_starts_that_are_too_large_for_the_memory_are_told():
    rollout = sim.compile(sim.make("CartPole-v1"), 10**12, 1, "numpy", record=())
    with pytest.raises(InvalidInput, match=r"num_envs: expected as many as there is memory for, got 10{12}, .* take f"):
        rollout.reset()


def test_results_that_are_too_large_for_the_memory_are_told():
    with pytest.raises(InvalidInput, match=r"float32\[10{12},1000\], and there is no memory for 40{15} bytes: take"):
        Recycled(1).empty(Form("obs", (10**12, 1000), np.dtype("float32"), 4 * 10**15))


@pytest.mark.parametrize("move", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_rollout_that_is_to_be_pickled_or_copied_says_what_to_do_instead(move):
    with pytest.raises(InvalidInput, match="a Rollout cannot be pickled or copied; share it"):
        move(sim.compile(sim.make("CartPole-v1"), 1, 1, "numpy"))


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "numpy", "xla"])
def test_the_count_of_steps_begins_anew_after_its_last_number(engine):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, engine)
    last = dataclasses.replace(rollout.reset(), step=np.uint32(2**32 - 1))
    assert int(rollout(last, random_actions(rollout.env, 2, 3))[0].step) == 1


def test_without_pytorch_its_extra_is_named(monkeypatch):
    for name in list(sys.modules):
        if name == "torch" or name.startswith(("drivetrain.sim.engines.torch", "drivetrain.sim.engines.tensors")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtra, match=r"this needs torch, which is not installed: pip install .drivetrain\[torch\]"
    ):
        compiled(lambda x: x + 1, "torch")
