"""What `drivetrain bench train` runs: how much of it, and each contender's job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.process import Rival
from drivetrain.bench.train.cases import Row
from drivetrain.bench.train.contenders import ONE_ENV, OURS, OURS_CONTINUOUS, OURS_PPO
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.rounds import Contender
from drivetrain.bench.train.settings import PENDULUM, ContinuousSettings, DqnSettings, PpoSettings, Settings

_DETERMINISTIC = ContinuousSettings(
    learning_rate=1e-3, learning_starts=1_000, gamma=0.98, hidden=(400, 300), action_noise=0.1
)
_SAC = ContinuousSettings(learning_rate=1e-3, learning_starts=256)
_CHEETAH = replace(_SAC, learning_rate=3e-4, learning_starts=1_000)

SETTINGS: Mapping[tuple[str, str], Settings] = {
    ("dqn", "CartPole-v1"): DqnSettings(),
    ("dqn", "ALE/Pong-v5"): DqnSettings(
        learning_rate=1e-4,
        batch_size=32,
        buffer_size=10_000,
        target_update_interval=1_000,
        train_freq=4,
        gradient_steps=1,
        exploration_fraction=0.1,
        exploration_final_eps=0.01,
        hidden=(),
    ),
    ("ppo", "CartPole-v1"): PpoSettings(),
    ("ppo", "ALE/Pong-v5"): PpoSettings(
        n_steps=128,
        n_epochs=4,
        gamma=0.99,
        gae_lambda=0.95,
        learning_rate=2.5e-4,
        clip_range=0.1,
        ent_coef=0.01,
        hidden=(),
    ),
    ("ppo", "Pendulum-v1"): PENDULUM,
    ("ppo", "HalfCheetah-v5"): PpoSettings(
        num_envs=1,
        n_steps=2_048,
        batch_size=64,
        n_epochs=10,
        gamma=0.99,
        gae_lambda=0.95,
        learning_rate=3e-4,
        linear=False,
    ),
    ("sac", "Pendulum-v1"): _SAC,
    ("td3", "Pendulum-v1"): _DETERMINISTIC,
    ("ddpg", "Pendulum-v1"): _DETERMINISTIC,
    ("sac", "HalfCheetah-v5"): _CHEETAH,
    ("td3", "HalfCheetah-v5"): replace(_CHEETAH, action_noise=0.1),
}
"""By algorithm and environment: RL Baselines3 Zoo's, less what not everybody has, and Stable-Baselines3's defaults,
which PPO on HalfCheetah has alone; SAC and TD3 there as in their papers but for the start, Pong for the start and a
smaller replay."""

STEPS = {"ppo": 100_000, "dqn": 50_000, "ALE/Pong-v5": 5_000}
"""Environment steps of a same-algorithm run by algorithm, or by environment; else 20,000, of about as many updates."""

PROBE_STEPS = {"ppo": 6_000, "dqn": 6_000, "ALE/Pong-v5": 1_500}
"""Environment steps of a run that chooses a peer's threads; else 3,000, of about as much time."""

QUICK_STEPS = 2_000
"""Environment steps of a same-algorithm run that shows that it runs."""

Threads = Mapping[str, int | None]  # peer -> computation threads; None: its framework's choice


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is run, and on what.

    Attributes:
        algo: The algorithm.
        env: Gymnasium id.
        settings: Of the same-algorithm rows and the peers.
        fixed_steps: Environment steps of the same-algorithm runs.
        probe_steps: Of the runs that choose the peers' threads; 0: one thread, unprobed.
        target_steps: At most so many until the target is reached.
        target_return: Mean return to reach.
        fixed_seeds: One round of the same-algorithm runs each.
        target_seeds: One round of the time-to-target runs each.
    """

    env: str
    settings: Settings
    algo: str = "dqn"
    fixed_steps: int = 50_000
    probe_steps: int = 6_000
    target_steps: int = 50_000
    target_return: float = 475.0
    fixed_seeds: Sequence[int] = (1, 2, 3)
    target_seeds: Sequence[int] = (1, 2, 3, 4, 5)

    @property
    def on_images(self) -> bool:
        """Whether images are learned from."""
        return self.fixed_job(self.fixed_steps).on_images

    def quickened(self) -> "Plan":
        """Without choosing threads, and with an easy target: it shows that everything runs, not who is ahead."""
        return replace(self, probe_steps=0, target_steps=3_000, target_return=100.0)

    def fixed_job(self, total_steps: int) -> Job:
        """The shared settings for a number of steps; the seed is set later."""
        return Job(kind="fixed", algo=self.algo, env=self.env, seed=0, total_steps=total_steps, settings=self.settings)

    def same_algorithm(self, peers: Sequence[Rival], threads: Threads, rows: Sequence[Row]) -> list[Contender]:
        """The forms that the rows need, ours and the peers'."""
        forms = self._dqn(peers, threads) if self.algo == "dqn" else self._as_they_are(peers, threads)
        needed = {label for row in rows for label in (row.ours, *row.peers.values())}
        return [contender for contender in forms if contender.label in needed]

    def _as_they_are(self, peers: Sequence[Rival], threads: Threads) -> list[Contender]:
        """PPO's environments are part of the algorithm; of the others the peers step one."""
        job = replace(self.fixed_job(self.fixed_steps), num_envs=None)
        ours = OURS_PPO if self.algo == "ppo" else OURS_CONTINUOUS
        return [
            Contender("ours sequential", ours, replace(job, num_actors=0)),
            Contender("ours sequential, 2 learners", ours, replace(job, num_actors=0, num_learners=2)),
            Contender("ours parallel", ours, job),
            Contender("ours 2 learners", ours, replace(job, num_actors=1, num_learners=2)),
            *(Contender(peer.name, peer, replace(job, threads=threads[peer.name])) for peer in peers),
        ]

    def _dqn(self, peers: Sequence[Rival], threads: Threads) -> list[Contender]:
        """DQN with one environment, and with eight."""
        job = self.fixed_job(self.fixed_steps)
        forms = [
            Contender("ours sequential, 1 env", OURS, replace(job, num_actors=0, num_envs=1)),
            Contender("ours sequential, 8 envs", OURS, replace(job, num_actors=0, num_envs=8)),
            Contender("ours parallel, 8 envs", OURS, replace(job, num_envs=8)),
        ]
        for peer in peers:
            of_peer = replace(job, threads=threads[peer.name])
            forms.append(Contender(f"{peer.name}, 1 env", peer, replace(of_peer, num_envs=1)))
            if peer.name not in ONE_ENV:
                forms.append(Contender(f"{peer.name}, 8 envs", peer, replace(of_peer, num_envs=8)))
        return forms

    def to_target(self, peers: Sequence[Rival], threads: Threads) -> list[Contender]:
        """Our defaults, and the peers at their tuned settings."""
        job = replace(self.fixed_job(self.target_steps), kind="target", target_return=self.target_return)
        ours = replace(job, settings=None, num_envs=None)
        return [
            Contender("ours, defaults", OURS, ours),
            *(Contender(f"{peer.name}, zoo", peer, replace(job, threads=threads[peer.name])) for peer in peers),
        ]
