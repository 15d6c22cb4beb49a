"""Of every primitive of JAX it is known whether it is read or refused: releases write old functions by new ones."""

import jax
import jax.lax.linalg
from jax.extend.core import Primitive

from drivetrain.sim.ir.importer.importer import ADVICE, CALLS, HANDLERS

REFUSED = {
    *("after_all", "create_token", "dce_sink", "sharding_constraint", "stage"),
    *("all_gather", "all_to_all", "axis_index", "pmax", "pmin", "ppermute", "psum", "ragged_all_to_all"),
    *("complex", "conj", "fft", "imag", "real"),
    *("bessel_i0e", "bessel_i1e", "igamma", "igamma_grad_a", "igammac", "polygamma", "regularized_incomplete_beta"),
    *("approx_top_k", "rng_bit_generator", "rng_uniform", "zeta"),
    *("select_and_gather_add", "select_and_scatter", "select_and_scatter_add"),
    *("cholesky_update", "eig", "hessenberg", "householder_product", "ormqr", "schur", "symmetric_product"),
    *("tridiagonal", "tridiagonal_solve"),
}
"""Of several devices, of complex numbers, of rare functions; not all are in every version."""


def test_every_primitive_of_jax_is_read_or_known_to_be_refused():
    members = [*vars(jax.lax).values(), *vars(jax.lax.linalg).values()]
    names = {member.name for member in members if isinstance(member, Primitive)}
    assert len(names) > 150
    assert names - HANDLERS.keys() - CALLS - ADVICE.keys() - REFUSED == set()
    assert not REFUSED & HANDLERS.keys()
