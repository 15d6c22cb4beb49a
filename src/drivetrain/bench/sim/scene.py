"""What every contender simulates in one case."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Recorded = Literal["nothing", "uint8", "float32"]
POLICIES = ("random", "linear", "relu 2x64", "tanh 2x64", "relu 2x64 each", "tanh 2x64 each")
"""Each: of action and value, which share no hidden layer."""
GYMNAX_PREFIX = "gymnax/"
"""Of the names of environments that need gymnax, whoever simulates them."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """N copies of an environment, K steps per call, restarted where episodes end.

    Actions are random and supplied, or those of a policy in the loop.

    Attributes:
        env: As `sim.make` names it: "CartPole-v1" is ours, "gymnax/Breakout-MinAtar" gymnax's.
        num_envs: N.
        num_steps: K, of those who take several steps per call.
        record: The type in which every observation is written to memory, or "nothing".
        generator: Of random numbers, for our engines.
        num_threads: Of the native engine.
        options: Of the environment.
        num_calls: Of those who take several steps per call: so many follow each other before anybody waits.
        policy: Who acts, of our engines: one of `POLICIES`; everything that a learner needs is recorded then. Empty:
            actions are supplied.
    """

    env: str
    num_envs: int
    num_steps: int = 64
    record: Recorded = "nothing"
    generator: str = "threefry"
    num_threads: int = 1
    options: tuple[tuple[str, float], ...] = ()
    num_calls: int = 1
    policy: str = ""

    @property
    def short_name(self) -> str:
        """The environment without its library."""
        return self.env.rpartition("/")[2]

    @property
    def is_gymnax(self) -> bool:
        """Whether the environment is one of gymnax's."""
        return self.env.startswith(GYMNAX_PREFIX)

    def as_request(self) -> dict[str, Any]:
        """As a contender's process is asked for it."""
        return {"do": "open", "scene": asdict(self)}


def from_request(fields: dict[str, Any]) -> Scene:
    """The scene of a request."""
    values: dict[str, Any] = {**fields, "options": tuple((name, value) for name, value in fields["options"])}
    return Scene(**values)
