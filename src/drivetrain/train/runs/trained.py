"""A run's policy by itself: from an environment's observation to its action, for whatever has the run's folder.

observation ─encoder─▶ as stored ─policy.act─▶ the agent's choice ─decoder─▶ action
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import simd_level
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import interface_of, make
from drivetrain.train.environments.faults import NoSuchCategory, kind_of, not_finite
from drivetrain.train.environments.spaces import decoder, encoder, shapes_of
from drivetrain.train.evaluate import policy_of
from drivetrain.train.interface import set_row
from drivetrain.train.run_dir.checkpoint import Which, load_saved_policy
from drivetrain.train.run_dir.folder import require_run_dir


class TrainedPolicy:
    """The policy of a run, acting for best return: `action = policy(observation)`.

    Observations are those of `make_env()`: raw, as normalising is part of the policy; stacked and preprocessed where
    the run's settings say so. Not safe for threads.

    Attributes:
        config: The run's settings.
        num_steps: Environment steps of the run when the policy was saved.
        mean_return: Of its evaluation; NaN where there was none.
    """

    def __init__(self, run_dir: Path, which: Which, again: Mapping[str, Any]) -> None:
        """See `drivetrain.train.load_policy`."""
        if which not in get_args(Which):
            raise InvalidInput(f"which: expected one of {', '.join(get_args(Which))}, got {which!r}")
        simd_level()  # refuses a name that is none
        require_run_dir(run_dir)
        self.config = TrainConfig.load(run_dir / "config.json", **again)
        saved = load_saved_policy(run_dir, which)
        self.num_steps, self.mean_return = saved.num_steps, saved.mean_return
        interface = interface_of(self.config)
        self._policy = policy_of(self.config, interface, saved)
        with contextlib.closing(self.make_env()) as env:
            self._space = env.observation_space
        self._encode = encoder(interface.observations, shapes_of(self._space))
        self._decode = decoder(interface.actions)
        self._row = interface.zero_observations(1)

    def __call__(self, observation: Any) -> Any:
        """The action for one observation of the environment.

        Raises:
            InvalidInput: It is no observation of that environment, or has a NaN or an infinity.
        """
        try:
            encoded = self._encode(observation)
        except NoSuchCategory as error:
            raise InvalidInput(f"observation: {error}") from error
        except Exception as error:  # what is given may be anything
            raise InvalidInput(
                f"observation: expected one of {self.config.env!r}, of {' '.join(str(self._space).split())}, got "
                f"{kind_of(observation)}; `make_env()` makes an environment that gives such"
            ) from error
        set_row(self._row, 0, encoded)
        found = not_finite(self._row, 1)
        if found is not None:
            raise InvalidInput(f"observation: {found[1]}")
        return self._decode(self._policy.act(self._row)[0])

    def make_env(self) -> "gymnasium.Env[Any, Any]":
        """An environment as the run's evaluations have it, wrappers included."""
        return make(self.config.env, self.config.environment)
