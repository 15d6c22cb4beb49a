"""Which calls of jitted functions were acting, of networks that no library names: told by what became of their results.

A jitted function whose program multiplies matrices, takes no gradient and steps no simulator (hooks/jax.py) may be a
policy; it may also mix weights, compute targets, or be anything else. Of what a thread does outside all of that,

    network, values fetched, step of a simulator        the network acted: inference
    network, update                                     the network is part of the update: backpropagation
    network, update, values fetched, step               nobody can tell

and what cannot be told is left to what is around. "Fetched" is where Python asks for the numbers of an array: a step
that was taken with them has to wait for them. Where two networks come before one fetch (an actor, then a critic), both
acted if both do so habitually and no update came since the last step; else only the one next to it. A function most of
whose calls do not end in a step never acts. Waiting for values belongs to what was asked for last, and to nobody where
that does several things at once, as a rollout with its policy.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.scope.sites import FETCHED, FORWARD, NETWORK, SEVERAL, Site

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max


class Purposes(NamedTuple):
    """Per begin event of a thread, what it is presumed to be."""

    is_acting: Bools
    is_update: Bools


def is_asked(sites: tuple[Site, ...]) -> bool:
    """Whether there is anything to decide."""
    return any(site.presumed in (NETWORK, FETCHED) for site in sites)


def purposes(site: NDArray[np.int32], parent: Ints, sites: tuple[Site, ...]) -> Purposes:
    """Decide for networks, and for values that are fetched, outside everything else that is looked at.

    Args:
        site: Site of each begin event of a thread.
        parent: Which begin is around each; -1 for none.
        sites: What the sites are.
    """
    seen = _Seen.of(site, parent, sites)
    acting, update = _of_networks(seen, site[seen.network])
    presumed = np.array([one.presumed for one in sites])[site]
    is_acting, is_update = np.zeros(len(site), np.bool_), np.zeros(len(site), np.bool_)
    is_acting[seen.network], is_update[seen.network] = acting, update
    _hand_on_to_waiting(seen, is_acting, is_update)
    asked = (presumed == NETWORK) | (presumed == FETCHED)
    return Purposes(is_acting & asked, is_update & asked)


class _Seen(NamedTuple):
    """Positions of begins that lie in none of the others."""

    network: Ints
    update: Ints
    step: Ints
    several: Ints
    fetch: Ints
    fetch_in_step: Ints
    """Steps that fetch values themselves, before anything else."""

    @classmethod
    def of(cls, site: NDArray[np.int32], parent: Ints, sites: tuple[Site, ...]) -> "_Seen":
        is_network, is_update, is_step, is_several, is_fetch = (
            np.array(what, np.bool_)[site]
            for what in (
                [one.presumed in (NETWORK, FORWARD) for one in sites],
                ["backpropagation" in (one.operation, one.presumed) for one in sites],
                [one.operation == "simulation" for one in sites],
                [one.presumed == SEVERAL for one in sites],
                [one.presumed == FETCHED for one in sites],
            )
        )
        looked_at = is_network | is_update | is_step | is_several | is_fetch
        around = _outermost(looked_at, parent)
        alone = looked_at & (around < 0)
        # Wrappers of a simulator around it are steps in a step.
        told = np.flatnonzero(looked_at & ~(is_step & (around >= 0)))
        fetched = told[is_fetch[told]]
        before = np.append(told, -1)[np.searchsorted(told, fetched) - 1]
        return cls(
            network=np.flatnonzero(is_network & alone),
            update=np.flatnonzero(is_update & alone),
            step=np.flatnonzero(is_step & alone),
            several=np.flatnonzero(is_several & alone),
            fetch=np.flatnonzero(is_fetch & alone),
            fetch_in_step=before[(before >= 0) & (around[fetched] == before) & is_step[before]],
        )


def _outermost(wanted: Bools, parent: Ints) -> Ints:
    """The outermost of the wanted begins around each; -1 for none."""
    found = np.full(len(parent), -1, np.int64)
    above = parent
    while (above >= 0).any():
        found = np.where((above >= 0) & wanted[above], above, found)
        above = np.where(above >= 0, parent[above], -1)
    return found


def _of_networks(seen: _Seen, site: NDArray[np.int32]) -> tuple[Bools, Bools]:
    """Of each network, whether it acted, and whether it was part of an update."""
    if not len(seen.network):
        return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
    at = seen.network
    step, update = _after(at, seen.step), _after(at, seen.update)
    # A step that fetches has what it was taken with where it begins.
    fetches = np.sort(np.concatenate([seen.fetch, seen.fetch_in_step]))
    fetch = _after(at, fetches)
    ends_in_step = (fetch <= step) & (step < update)
    last = at[np.searchsorted(at, fetch) - 1]
    calls = np.bincount(site)
    habitual = 2 * calls[site] >= calls[site[np.searchsorted(at, last)]]
    undisturbed = _before(at, seen.update) <= _before(at, seen.step)
    acting = ends_in_step & ((last == at) | (habitual & undisturbed))
    others = np.bincount(site, (step < update) & ~acting, len(calls))
    acting &= (np.bincount(site, acting, len(calls)) >= others)[site]

    # Values of which of them, if no network comes between the update and the step that was taken with some?
    next_step, next_network = _after(update, seen.step), _after(update, at)
    untold = (_after(update, fetches) <= next_step) & (next_step < next_network)
    return acting, (update < np.minimum(step, fetch)) & ~untold


def _hand_on_to_waiting(seen: _Seen, is_acting: Bools, is_update: Bools) -> None:
    """What was asked for last before values were fetched, since the last step."""
    is_update[seen.update] = True
    told = np.sort(np.concatenate([seen.network, seen.update, seen.step, seen.several]))
    before = np.append(told, -1)[np.searchsorted(told, seen.fetch) - 1]
    there = before >= 0
    is_acting[seen.fetch] = there & is_acting[before]
    is_update[seen.fetch] = there & is_update[before]


def _after(positions: Ints, among: Ints) -> Ints:
    """The first of `among` after each position; beyond all where there is none."""
    return np.append(among, _NEVER)[np.searchsorted(among, positions, side="right")]


def _before(positions: Ints, among: Ints) -> Ints:
    """The last of `among` before each position; -1 where there is none."""
    return np.insert(among, 0, -1)[np.searchsorted(among, positions)]
