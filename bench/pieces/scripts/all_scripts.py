# SPDX-License-Identifier: BSL-1.0
"""All training scripts, by name."""
from __future__ import annotations

import generative
import language
import others
import trainers
import vision

SCRIPTS = vision.SCRIPTS | generative.SCRIPTS | language.SCRIPTS | others.SCRIPTS | trainers.SCRIPTS
