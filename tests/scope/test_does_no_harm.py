"""A program does the same with and without a profile: what it prints, learns, pickles, raises and ends with."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from programs import entered, profiled

from drivetrain import scope


def assert_same(tmp_path, text, *flags, code=0):
    """Run a script alone and recorded, with flags; both must print the same. What they printed."""
    script = tmp_path / "program.py"
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    alone = subprocess.run([sys.executable, script], env=environment, capture_output=True, check=False)
    recorded = profiled(tmp_path / "run.scope", *flags, script, check=False)
    assert (alone.returncode, recorded.returncode) == (code, code), (alone.stderr, recorded.stderr)
    assert recorded.stdout == alone.stdout
    assert recorded.stderr.startswith(alone.stderr)  # behind it comes the report
    assert alone.stdout
    assert scope.load(tmp_path / "run.scope").trace.num_events > 0
    return alone.stdout.decode()


@pytest.mark.release
def test_an_exception_in_a_simulator_shows_the_same_lines_and_pickles_are_the_same(tmp_path):
    pytest.importorskip("gymnasium")
    text = """
import copy, inspect, pickle, pickletools, subprocess, sys, threading, time
import cloudpickle, gymnasium

class Breaks(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.np_random.integers(2)), {}

    def step(self, action):
        self.taken += 1
        if self.taken == 3:
            raise ValueError(f"no action {action}")
        return 0, 0.0, False, False, {}

env = gymnasium.wrappers.TimeLimit(Breaks(), 10)
print(env.reset(seed=3), env.step(0))
print(pickletools.genops(pickle.dumps(env)) is not None, pickle.dumps(Breaks.step), pickle.dumps(gymnasium.Env.step))
again = copy.deepcopy(env)
print(again.unwrapped.taken, again.step(1), env.unwrapped.taken)
print([inspect.isbuiltin(f) for f in (time.sleep, threading.Lock, len)], inspect.signature(Breaks.reset))
print(inspect.getsource(Breaks.step).count("raise"), Breaks.step.__qualname__, callable(Breaks.step))
assert pickle.loads(pickle.dumps(env)).unwrapped.taken == 1
print(inspect.isfunction(Breaks.step), inspect.ismethod(env.step), isinstance(Breaks.step, type(lambda: 0)))

def make():
    class Local(Breaks):
        def step(self, action):
            return super().step(action)
    return Local()

# As vector environments hand classes of a script to processes that do not run it.
text = "import cloudpickle, sys; print([(e.reset(seed=3), e.step(0)) for e in cloudpickle.load(sys.stdin.buffer)])"
subprocess.run([sys.executable, "-c", text], input=cloudpickle.dumps([env, make()]), check=True)
env.step(0)
env.step(1)
"""
    assert_same(tmp_path, text, "--calibrate-every", "0", code=1)  # so that calls can be counted
    by_process = Counter(thread.process for thread in scope.load(tmp_path / "run.scope").trace.threads)
    assert len(by_process) == 2
    counts = entered(tmp_path / "run.scope")
    assert counts["Breaks.step"] == 1 + 1 + 1 + 1 + 2
    assert counts["Local.step"] == 1, "of the other process, whose class is a copy"


@pytest.mark.release
def test_our_own_training_learns_the_same_bits(tmp_path):
    pytest.importorskip("jax")
    # Standard error shows how fast it is, which is not the same.
    text = f"""
import os, sys
sys.stderr = open(os.devnull, "w")
from drivetrain.train import train
result = train("dqn", "CartPole-v1", total_steps=300, num_actors=0, seed=5, warmup_steps=100, hidden=(16,),
    batch_size=16, envs_per_actor=4, eval_interval_steps=150, eval_episodes=2, final_eval_episodes=3,
    run_dir=r"{tmp_path}/" + str(os.getpid()))
print(result.returns, result.num_updates)
"""
    assert_same(tmp_path, text)


@pytest.mark.release
@pytest.mark.torch
def test_stable_baselines3_learns_the_same_weights_from_the_same_seed(tmp_path):
    pytest.importorskip("stable_baselines3", reason='needs SB3: pip install "drivetrain[bench]"')
    text = """
import torch
from stable_baselines3 import DQN, PPO, SAC
torch.set_num_threads(1)
for algo, env, options in (
    (DQN, "CartPole-v1", {"learning_starts": 50}),
    (PPO, "CartPole-v1", {"n_steps": 64, "n_epochs": 2}),
    (SAC, "Pendulum-v1", {"learning_starts": 180}),
):
    model = algo("MlpPolicy", env, seed=3, device="cpu", **options).learn(210)
    weights = [float(p.double().sum()) for p in model.policy.parameters()]
    print(algo.__name__, [episode["r"] for episode in model.ep_info_buffer], weights)
"""
    assert "SAC" in assert_same(tmp_path, text)


@pytest.mark.release
@pytest.mark.torch
def test_sbx_learns_the_same_weights_from_the_same_seed(tmp_path):
    pytest.importorskip("sbx", reason='needs SBX: pip install "drivetrain[bench]"')
    text = """
import jax
from sbx import DQN
model = DQN("MlpPolicy", "CartPole-v1", seed=3, learning_starts=50).learn(200)
print([episode["r"] for episode in model.ep_info_buffer])
print([float(leaf.sum()) for leaf in jax.tree.leaves(model.policy.qf_state.params)])
"""
    assert_same(tmp_path, text)


@pytest.mark.release
@pytest.mark.torch
def test_scripted_traced_saved_and_copied_modules_are_the_same(tmp_path):
    pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    text = """
import copy, io, pickle
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
x = torch.randn(5, 4)
print(torch.jit.script(net).code, torch.jit.trace(net, x).code, torch.jit.script(net)(x).tolist())
print(pickle.loads(pickle.dumps(net))(x).tolist(), copy.deepcopy(net)(x).tolist())
file = io.BytesIO()
torch.save(net.state_dict(), file)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
print(net(x).tolist(), torch.func.functional_call(net, dict(net.named_parameters()), x).tolist())
print(len(pickle.dumps(optimizer.state_dict())), torch.autograd.grad(net(x).sum(), list(net.parameters()))[0].tolist())
"""
    assert_same(tmp_path, text)
