"""Echo in JAX: what fills the memory of a compiled step, and a step that computes the same in less."""

from __future__ import annotations

from echo_jax.compiling import MEMORY_SCHEDULER, Declined
from echo_jax.explain import Buffer, Explanation, compare, explain
from echo_jax.policy import Chosen, policy
from echo_jax.remat import Decision, Remat, remat

__all__ = [
    "MEMORY_SCHEDULER",
    "Buffer",
    "Chosen",
    "Decision",
    "Declined",
    "Explanation",
    "Remat",
    "compare",
    "explain",
    "policy",
    "remat",
]
