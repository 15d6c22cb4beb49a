"""What a reader of the page has to know to read its numbers right."""

from drivetrain.bench.learning.case import MARGIN_SHARE

OF_EVERYBODY = (
    "Few seeds: bootstrap intervals over five runs are narrower than they should be, over three more so.",
    "The last policy is judged, not the best one on the way: algorithms whose policies swing from one update "
    "to the next (DQN) are caught at a random moment, on both sides.",
)
OF_SB3 = (
    "Small problems. CartPole's return ends at 500 and Pendulum's near -150, so a difference between good "
    "learners cannot show there.",
    "DQN's last policy on CartPole is worth anything from 15 to 500 by chance, on both sides: its verdict would take "
    "some thousand runs of each, and says nothing with tens; the late column says more (design/bench-learning.md).",
    'Each side gets the settings that others tuned for Stable-Baselines3. "ours" takes turns step by step with one '
    'environment as it does; "ours, processes" has our default processes, environments (8 per actor) and pace.',
    "Ours explores by its schedule while it waits for its first DQN update, Stable-Baselines3 at random; which "
    "random numbers are drawn differs throughout, so equal seeds mean nothing in common.",
)
OF_SIMULATORS = (
    "Small problems, and few steps: CartPole's return ends at 500, and neither algorithm is through with Breakout.",
    'Both sides are ours, at our settings. "fused" and "through Gymnasium" take turns with their updates in one '
    'process, so that they differ in the kernel and in random numbers alone; "fused, processes" has an actor, a '
    "learner and an evaluator, on a machine that others used too, so that DQN's actors were behind by other numbers of "
    "updates than elsewhere. PPO waits for its updates in any form.",
    "Weights before learning are those of the seed on all sides; which random numbers are drawn otherwise differs.",
)
METHOD = (
    "A run's score is the mean return of its last policy, deterministic, over 100 episodes on seeds that nobody "
    "trained with. Interquartile means of the runs' scores with 95% stratified bootstrap intervals (percentiles; "
    "Agarwal et al. 2021, arXiv:2108.13264). Both sides took the same number of environment steps and updates.\n\n"
    f"The margin is {MARGIN_SHARE:.0%} of the range from random actions to a good policy, set before the runs. "
    "**Parity** is said only where the interval of the difference excludes a loss beyond the margin, **behind** where "
    "it does not and lies below 0 as a whole, **not shown** otherwise."
)
CONTROL = (
    "The other side with as many environments as an actor of ours has, at the same settings, steps and updates, "
    "less itself with one; and ours with processes less the other side so. Nothing is judged by it: it tells what is "
    "the environments' share of a difference above, and what is the processes'."
)
ON_THE_WAY = (
    "Interquartile mean over seeds of the mean return of 10 episodes, by the latest evaluation at each tenth of the "
    "steps but the last; our evaluator process skips one when it is behind. The table of differences has in its last "
    "column those of each run's mean over these tenths: how fast they learn, with less chance in it than one last "
    "policy has; and before it, as late, of the mean of all evaluations from six tenths on, the score included: what "
    "they have learned, where single policies swing. A run has 50 evaluations, or 10 where it is older. No verdict "
    "rests on either."
)
