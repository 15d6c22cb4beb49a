"""What stands in a run's way, said before anything starts.

configuration -> describe: the environment, and what fits it -> Interface -> require_learner: what learns on it
"""

from drivetrain.core.errors import InvalidInput
from drivetrain.core.importing import folder_of, is_found_anew
from drivetrain.core.machine import available_memory, num_cores
from drivetrain.core.paths import back_here, given_path, resolved
from drivetrain.core.words import size
from drivetrain.replay import simd_level
from drivetrain.train.config import TrainConfig, is_simulator
from drivetrain.train.config.given import Given, is_of_script
from drivetrain.train.environments.environment import look_at, require_known_everywhere
from drivetrain.train.environments.spaces import require_fit
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import leaving_gpus, require_devices, require_room_for_network
from drivetrain.train.networks import length_of
from drivetrain.train.normalization import Normalization
from drivetrain.train.policies.embeddings import require_encoder
from drivetrain.train.policies.policy import policy_network

_NBYTES_PER_ACTOR = 8 * 2**20  # its own, beside what it shares with others, where environments are the smallest


def placed(config: TrainConfig) -> TrainConfig:
    """The same whoever goes elsewhere."""
    given = {"init_from": config.run.init_from}
    if not config.on_policy:
        given["scratch_dir"] = config.replay.scratch_dir
    folders = {name: resolved(given_path(name, path)) for name, path in given.items() if path is not None}
    return config.override(**{name: str(folder) for name, folder in folders.items()})


def describe(config: TrainConfig) -> Interface:
    """Make a run's environment once and read its spaces.

    Raises:
        InvalidInput: It is unknown, cannot be made or wrapped, or is not for this algorithm; or DRIVETRAIN_SIMD
            is unknown; says why and what to do.
    """
    simd_level()  # refuses a name that is none
    with leaving_gpus(config):
        with back_here():  # an environment may go elsewhere when it is made, and the run is to lie here
            interface, _ = look_at(config)
        require_fit(interface, config.algo, config.env)
        Normalization.of(config, interface)  # refuses what cannot be normalised
        require_encoder(config, interface)
        if config.fused_engine is not None:
            from drivetrain.train.actor.fused.kernel import require_kernel  # imports jax: only where it is needed

            require_kernel(config, interface)
    return interface


def require_learner(config: TrainConfig, interface: Interface) -> None:
    """Refuse actors that cannot be, and a torso, an optimizer or learners that cannot work.

    Raises:
        InvalidInput: There is one; nothing was started.
    """
    if config.num_actors > 0:
        require_known_everywhere(config.env)
        _require_importable(config)
        _require_room_for_actors(config.num_actors)
    num_parameters = length_of(policy_network(config, interface))
    require_room_for_network(num_parameters)
    require_devices(config, num_parameters, num_cores())
    if config.agent.optimizer != "adam" or config.agent.torso != "auto":
        from drivetrain.train.runs.tried import require_updates  # imports jax: only where it is needed

        with leaving_gpus(config):
            require_updates(config, interface)


def _require_importable(config: TrainConfig) -> None:
    """Refuse what processes of a run cannot import: they do not execute the script or the notebook."""
    named = {"env": config.env, "torso": config.agent.torso, "optimizer": config.agent.optimizer}
    for setting, name in named.items():
        if is_of_script(name):
            by_itself = "" if is_simulator(name) else "give the object itself in place of its name, "
            named_so = "drivetrain/module:name" if is_simulator(name) else "module:name"
            raise InvalidInput(
                f"{setting}: {name!r} is of the script or notebook, which the run's processes do not execute; "
                f"{by_itself}put it into a module and name it {named_so}, or train in this process (num_actors=0)"
            )
        needed = sorted(name.named_modules) if isinstance(name, Given) else _module_in(name)
        absent = [module for module in needed if not is_found_anew(module)]
        if absent:
            raise InvalidInput(
                f"{setting}: '{name}' needs the module {absent[0]!r}, which the run's processes cannot import, as "
                f"{_why_absent(absent[0])}, or train in this process (num_actors=0)"
            )


def _module_in(name: str) -> list[str]:
    """The module of module:name; none where a setting names none."""
    module, colon, _ = name.removeprefix("drivetrain/").partition(":")
    return [module] if colon else []


def _why_absent(module: str) -> str:
    folder = folder_of(module)
    if folder is None:
        return "it was loaded by a path or made in memory; import it by its name, from a folder in sys.path"
    return f"its folder {str(folder)!r} is not in sys.path, or not from where you are now; append it there"


def _require_room_for_actors(num_actors: int) -> None:
    """Refuse more processes than fit before some hundreds of them have begun."""
    most = available_memory() // _NBYTES_PER_ACTOR
    if num_actors > most:
        raise InvalidInput(
            f"num_actors: expected at most {most:,}, since a process takes {size(_NBYTES_PER_ACTOR)} of memory "
            f"or more, got {num_actors:,}; one for each core is usual, and envs_per_actor gives more environments"
        )
