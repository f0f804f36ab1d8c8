"""Echo in JAX: what fills the memory of a compiled step, and a step that computes the same in less."""

from __future__ import annotations

from echo_jax.calls import Declined
from echo_jax.compiling import MEMORY_SCHEDULER, devices
from echo_jax.explain import Buffer, Explanation, compare, explain
from echo_jax.policy import Chosen, policy
from echo_jax.remat import Remat, remat
from echo_jax.search import Candidate, Decision

__all__ = [
    "MEMORY_SCHEDULER",
    "Buffer",
    "Candidate",
    "Chosen",
    "Decision",
    "Declined",
    "Explanation",
    "Remat",
    "compare",
    "devices",
    "explain",
    "policy",
    "remat",
]
