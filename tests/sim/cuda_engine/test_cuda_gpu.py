"""CUDA kernels on a GPU give the bits of `native`; arrays go in and out where they are, in the order of streams."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from comparing import EVERYTHING, random_actions
from on_gpu import why_no_gpu

from drivetrain import sim
from drivetrain.bench.gpu.graphs import replayed
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.registry import ENVIRONMENTS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(why_no_gpu()), reason=why_no_gpu() or "there is a GPU")]


def assert_same_bits(env, num_envs, num_steps, **options):
    options = {"record": EVERYTHING, **options}
    native, cuda = (sim.compile(env, num_envs, num_steps, engine, **options) for engine in ("native", "cuda"))
    actions = random_actions(native.env, num_steps, num_envs)
    expected, got = native.reset(seed=3), cuda.reset(seed=3)
    for _ in range(3):
        (expected, row), (got, on_gpu) = native(expected, actions), cuda(got, actions)
        for x, y in zip(jax.tree.leaves((expected, row)), jax.tree.leaves((got, on_gpu)), strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_array_equal(x, y)  # NaN has one sign on a GPU and another on a CPU


OTHERWISE_RESET = [(name, how) for name in ("CartPole-v1", "Breakout") for how in ("next_step", "disabled")]


@pytest.mark.parametrize(("name", "autoreset"), [*((name, "same_step") for name in ENVIRONMENTS), *OTHERWISE_RESET])
def test_every_environment_of_ours(name, autoreset):
    assert_same_bits(sim.make(name), num_envs=4099, num_steps=100, autoreset=autoreset)


@pytest.mark.parametrize("num_envs", [1, 31, 128, 100_003])
def test_any_number_of_environments(num_envs):
    assert_same_bits(sim.make("CartPole-v1"), num_envs, num_steps=20)


@pytest.mark.parametrize("narrow_obs", [None, "bits", "bool", "uint8"])
def test_a_grid_game(narrow_obs):
    pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    assert_same_bits(sim.make("gymnax/Breakout-MinAtar"), num_envs=1000, num_steps=50, narrow_obs=narrow_obs)


def test_a_callers_stream_is_used_and_results_of_other_libraries_arrays_are_the_same():
    from cuda.core import Device

    device = Device()
    device.set_current()
    stream = device.create_stream()
    rollout = sim.compile(sim.make("CartPole-v1"), 1000, 16, "cuda", stream=stream)
    actions = random_actions(rollout.env, 16, 1000)
    on_gpu = rollout.runner.gpu.copied(actions)
    expected, _ = rollout(rollout.reset(), actions)
    got, trajectory = rollout(rollout.reset(), on_gpu)
    assert int(rollout.runner.gpu.stream.handle) == int(stream.handle)
    for x, y in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert trajectory["obs"].__dlpack_device__() == (2, device.device_id)


def test_arrays_go_to_torch_and_back_without_a_copy():
    torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA build of torch")
    rollout = sim.compile(sim.make("CartPole-v1"), 1000, 16, "cuda", stream=torch.cuda.current_stream().cuda_stream)
    actions = torch.randint(2, (16, 1000), dtype=torch.int32, device="cuda")
    _, trajectory = rollout(rollout.reset(), actions)
    obs = torch.from_dlpack(trajectory["obs"])
    assert obs.data_ptr() == trajectory["obs"].ptr
    np.testing.assert_array_equal(obs.cpu().numpy(), np.asarray(trajectory["obs"]))


def test_arrays_of_the_host_may_be_written_over_when_a_call_returns():
    rollout = sim.compile(sim.make("CartPole-v1"), 2**17, 64, "cuda", record=())
    actions = random_actions(rollout.env, 64, 2**17)
    start, given = rollout.reset(), actions.copy()
    for _ in range(3):
        expected, _ = rollout(start, actions)
        got, _ = rollout(start, given)
        given[:] = 1 - given
        for x, y in zip(jax.tree.leaves(expected.env), jax.tree.leaves(got.env), strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
        given[:] = actions


def test_the_last_observations_go_to_jax_wherever_they_begin():
    if jax.default_backend() != "gpu":
        pytest.skip('needs JAX on this GPU: pip install "jax[cuda13]"')
    rollout = sim.compile(sim.make("Pendulum-v1"), 3, 2, "cuda")
    state, trajectory = rollout(rollout.reset(), random_actions(rollout.env, 2, 3))
    assert state.obs.ptr % 16 == 4
    doubled = jax.jit(lambda x: 2 * x)(jax.dlpack.from_dlpack(state.obs))
    np.testing.assert_array_equal(np.asarray(doubled), 2 * np.asarray(trajectory["obs"])[-1])


def test_arrays_go_to_other_libraries_in_threads_that_have_used_no_gpu():
    torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA build of torch")
    rollout = sim.compile(sim.make("CartPole-v1"), 1000, 4, "cuda")
    _, trajectory = rollout(rollout.reset(), random_actions(rollout.env, 4, 1000))
    with ThreadPoolExecutor(1) as thread:
        reward = thread.submit(lambda: torch.from_dlpack(trajectory["reward"]).cpu().numpy()).result(60)
    np.testing.assert_array_equal(reward, np.asarray(trajectory["reward"]))


def test_arrays_on_the_gpu_that_do_not_fit_are_refused():
    rollout = sim.compile(sim.make("CartPole-v1"), 8, 4, "cuda")
    wrong = rollout.runner.gpu.copied(np.zeros((4, 9), np.int32))
    with pytest.raises(InvalidInput, match=r"actions: expected a dense int32\[4,8\], got int32\[4, 9\] with"):
        rollout(rollout.reset(), wrong)


def on_a_stream_of_its_own(num_envs, record):
    """A rollout of single steps whose launches can be captured, and random actions on the GPU."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    rollout = sim.compile(sim.make("CartPole-v1"), num_envs, 1, "cuda", record=record, stream=device.create_stream())
    return rollout, np.random.default_rng(0).integers(2, size=(1, num_envs), dtype=np.int32)


def test_single_steps_replayed_as_a_graph_are_the_steps_that_native_takes():
    rollout, actions = on_a_stream_of_its_own(1000, ())
    native = sim.compile(sim.make("CartPole-v1"), 1000, 1, "native", record=())
    replay, leaves = replayed(rollout, rollout.reset(seed=3), actions, 40)
    replay()
    expected = native.reset(seed=3)
    for _ in range(40):
        expected, _ = native(expected, actions)
    for x, y in zip(jax.tree.leaves(expected.env), leaves, strict=True):
        np.testing.assert_array_equal(x, np.asarray(y))


# Steps per second that an H200 could take of CartPole, by what bounds each: bytes written, or instructions.
LIMITS = {"fused, full trajectory": 1.95e11, "fused, nothing recorded": 3.9e11, "one step per call": 6.9e10}


def best_rate(gpu, take, num_calls, num_steps):
    """Steps per second in the best of five turns of so many calls, each of so many steps."""
    best = 0.0
    for _ in range(5):
        gpu.stream.sync()
        start = time.perf_counter()
        for _ in range(num_calls):
            take()
        gpu.stream.sync()
        best = max(best, num_calls * num_steps / (time.perf_counter() - start))
    return best


@pytest.mark.parametrize("mode", LIMITS)
def test_throughput_is_said_with_its_part_of_the_limit_of_an_h200(mode, record_property, capsys):
    num_envs, num_steps = 2**20, 1 if mode == "one step per call" else 64
    record = () if mode == "fused, nothing recorded" else EVERYTHING[:4]
    rollout = sim.compile(sim.make("CartPole-v1"), num_envs, num_steps, "cuda", record=record)
    gpu = rollout.runner.gpu
    actions = gpu.copied(np.random.default_rng(0).integers(2, size=(num_steps, num_envs), dtype=np.int32))
    state, _ = rollout(rollout.reset(), actions)

    def take():
        nonlocal state
        state, _ = rollout(state, actions)

    best = best_rate(gpu, take, 20, num_envs * num_steps)
    record_property("steps_per_s", best)
    with capsys.disabled():
        part = best / LIMITS[mode]
        sys.stdout.write(f"\nCartPole, {mode}, N = {num_envs}: {best:.3g} steps/s, {part:.0%} of an H200's limit\n")
    assert int(state.step) == (1 + 5 * 20) * num_steps


def test_throughput_of_single_steps_in_a_graph_is_said_with_its_part_of_the_limit_of_an_h200(record_property, capsys):
    num_envs, num_launches = 2**20, 64
    rollout, actions = on_a_stream_of_its_own(num_envs, EVERYTHING[:4])
    gpu = rollout.runner.gpu
    replay, leaves = replayed(rollout, rollout.reset(), gpu.copied(actions), num_launches)
    best = best_rate(gpu, replay, 10, num_envs * num_launches)
    record_property("steps_per_s", best)
    with capsys.disabled():
        part = best / LIMITS["one step per call"]
        sys.stdout.write(f"\nCartPole, single steps in a graph: {best:.3g} steps/s, {part:.0%} of an H200's limit\n")
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in leaves)


def test_a_scan_inside_a_program_of_jax_gives_the_bits_of_native():
    if jax.default_backend() != "gpu":
        pytest.skip('needs JAX on this GPU: pip install "jax[cuda13]"')
    native, cuda = (sim.compile(sim.make("CartPole-v1"), 1000, 16, engine) for engine in ("native", "cuda"))
    actions = np.stack([random_actions(native.env, 16, 1000)] * 5)
    state, trajectory = jax.jit(lambda state: jax.lax.scan(cuda, state, actions), donate_argnums=0)(native.reset())
    expected = native.reset()
    for number, row in enumerate(actions):
        expected, wanted = native(expected, row)
        np.testing.assert_array_equal(np.asarray(trajectory["obs"][number]), wanted["obs"])
    for x, y in zip(jax.tree.leaves(state.env), jax.tree.leaves(expected.env), strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_the_comparisons_of_the_paper_are_made_on_the_gpu(tmp_path):
    report = tmp_path / "paper.json"
    assert bench.run(["sim", "--paper", "--device", "gpu", "--quick", "--json", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["machine"]["device"] == "gpu"
    assert found["cases"]
    assert all(case["ours"] > 0 for case in found["cases"])
