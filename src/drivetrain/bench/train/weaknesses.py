"""What the numbers of `drivetrain bench train` do not show: the first thing on its page."""

from collections.abc import Mapping, Sequence

_CLEANRL = (
    "CleanRL is single files, not a package: its peers are loops written for this comparison in the manner of those "
    "files, at the compared settings, without their TensorBoard writer and printing."
)
_IMPORTS = (
    "Imports of a contender's main process are on nobody's clock. Our actor, learner and evaluator processes import "
    "after the clock starts, so our parallel rows carry imports that the peers' times do not. CPU-seconds with imports "
    "count all of everybody's from the start of the interpreter, with those of the benchmark's own few modules."
)
_BY_CLOCK = (
    "A peer runs with one computation thread or its framework's choice, whichever took less wall time in a short run; "
    "CPU-seconds are of that choice, too, and by them a peer may do better with one thread."
)
_BY_CPU = (
    "Each peer has the number of threads that costs it fewer CPU-seconds in the probe, one where more gain less than "
    "they cost; by the clock it may do better with all cores."
)
_DQN = (
    "One environment and one small network: the case where fused updates help most. It says "
    "nothing about images, large networks, accelerators or slow environments.",
    "The tuned settings have the peers step one environment; ours steps eight by default. The "
    "rows with as many environments on all sides show what is left without that.",
    "SBX and CleanRL clip no gradients, and no peer flushes denormals; nobody was changed to match us.",
    _BY_CPU,
    _CLEANRL + " Its DQN takes one environment, and updates after every second step rather than in blocks.",
    "Ours copies its target network once per block of 128 updates. The peers copy it every 10 "
    "environment steps, which comes to the same: they do not update between the copies.",
    _IMPORTS,
    "Time to target compares our defaults, another algorithm with a smaller network, with tuned "
    "vanilla DQN: it says what a user gets, not whose code is faster.",
    "Time to target ends at the first evaluation that reaches it, about every 1,000 steps, over "
    "100 episodes on fixed seeds. Training may get worse again afterwards, for everybody.",
    "In time to target, ours writes a checkpoint every 0.2 s to be evaluated afterwards; the "
    "peers are evaluated in place, with the clock stopped.",
    "A shared or virtual machine: only the ratios of one run count, and a few seeds are few.",
)
_PPO = (
    "Small networks: the case where one compiled call per rollout helps most. It says nothing about images, "
    "large networks, accelerators or slow environments.",
    _CLEANRL + " Its PPO bootstraps no truncated episodes.",
    "SBX has an optimiser and a clipped gradient norm for policy and value each; Stable-Baselines3 and ours have one "
    "for both. Stable-Baselines3 and SBX act in the environment's units, ours in units of half the range.",
    "Compilation is on the clock of those who compile, in every run and without a cache; with a cache, which is what "
    "our users have, ours takes some seconds less.",
    _BY_CLOCK,
    _IMPORTS,
    "The peers flush no denormals, and step their environments in the process that learns (DummyVecEnv), which is "
    "what they recommend for cheap environments.",
    "A shared or virtual machine: only the ratios of one run count, and a few seeds are few.",
)
_CONTINUOUS = (
    "Two networks of two layers and one batch size; it says nothing about images, larger networks, accelerators or "
    "slow environments.",
    "The peers step one environment and update after each step, in one process. Ours does so, too, in the "
    "sequential rows, by one learner or by two that halve each batch, but the update that a step calls for draws from "
    "the rows before it and is computed while the environment steps; each step is acted by the weights after all "
    "updates due before it, as on the other sides. In the other rows actors and learners are processes and go on "
    "beside each other, at the same number of steps and updates.",
    "Compilation is on the clock of those who compile, in every run and without a cache.",
    _IMPORTS,
    _BY_CLOCK,
    "Ours has one thread for each actor and learner, which in one process are the thread that steps and "
    "those of its learners: with one learner a core waits for it most of the time.",
    "SBX's and our update are compiled as a whole; Stable-Baselines3 and CleanRL run eager PyTorch, as their users do.",
    _CLEANRL + " Its SAC updates the policy twice after every second update of the critics.",
    "A shared or virtual machine: only the ratios of one run count, and a few seeds are few.",
)
WEAKNESSES: Mapping[str, Sequence[str]] = {
    "dqn": _DQN,
    "ppo": _PPO,
    "ddpg": _CONTINUOUS,
    "td3": _CONTINUOUS,
    "sac": _CONTINUOUS,
}
"""Algorithm -> sentences."""
_SHARED_ON_IMAGES = (
    "One game and one network, on a CPU: it says nothing about accelerators, which are the usual place to learn from "
    "images.",
    "Ours leaves out what is multiplied by zero. Pong has one background, and the runs are as short as the first "
    "updates are, when half of all units are on: in other games there is less to leave out in the first layer, later "
    "more in the others (design/training-convolutions.md).",
    "Nobody has learned to play after so few steps, and returns are not taken: it compares time alone. That our "
    "updates are those of plain convolutions is what tests show.",
    "Pictures are made by Stable-Baselines3's wrappers for all peers and by Gymnasium's for ours: four frames a step, "
    "the larger of the last two, 84 x 84, four in a stack, lives as episodes, rewards clipped, up to 30 actions "
    "without effect at first; theirs press the fire button besides.",
)
ON_IMAGES: Mapping[str, Sequence[str]] = {
    "dqn": (
        *_SHARED_ON_IMAGES,
        _BY_CPU,
        "SBX and CleanRL clip no gradients, and no peer flushes denormals; nobody was changed to match us.",
        _CLEANRL + " Its DQN is that of dqn_atari.py.",
        _IMPORTS,
        "A shared or virtual machine: only the ratios of one run count, and a few seeds are few.",
    ),
    "ppo": (
        *_SHARED_ON_IMAGES,
        _BY_CLOCK,
        "Ours has one thread per process, and one more for a second learner.",
        "SBX steps policy and value one after the other, so that it looks at each picture twice, and copies the "
        "convolutions that they share from one to the other; the others look once.",
        _CLEANRL + " Its PPO is that of ppo_atari.py; it bootstraps no truncated episodes.",
        _IMPORTS,
        "The peers flush no denormals, and step their environments in the process that learns (DummyVecEnv).",
        "A shared or virtual machine: only the ratios of one run count, and a few seeds are few.",
    ),
}
"""Algorithm -> sentences, on images."""
QUICK_WEAKNESS = "A quick run: few steps, one seed. It shows that everything runs, not who is ahead."
