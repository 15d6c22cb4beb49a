"""Kernels as operations of JAX programs: custom calls of XLA's foreign function interface.

traced arrays ─program.py─▶ an operation that names a kernel by its hash ─XLA─▶ a handler ─table.hpp─▶ kernel
"""
