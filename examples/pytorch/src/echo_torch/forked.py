"""Runs what must not reach the training process, such as an operator of the user's on made-up tensors.

It runs in a child process that has no file, socket or terminal of its parent's. Whatever happens there (a crash, a loop
without an end, random numbers, a counter that goes up) ends with the child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

MOST_LOST = 2  # children that are given up before the rest is not tried

Tasks = Mapping[str, Callable[[], Any]]


def is_possible() -> bool:
    """Whether this system can fork, and its libraries survive it."""
    return hasattr(os, "fork") and sys.platform.startswith("linux")


def answers(tasks: Tasks, seconds: float) -> dict[str, Any]:
    """What each task returns, as JSON has it, or a text that says why it returned nothing.

    Each may take that many seconds; one that takes longer, or ends its process, is lost alone.
    """
    found: dict[str, Any] = {}
    waiting, lost = list(tasks), 0
    while waiting and lost < MOST_LOST:
        for answer in _answers_of_a_child({key: tasks[key] for key in waiting}, seconds):
            found[waiting.pop(0)] = answer
        if waiting:
            found[waiting.pop(0)] = f"it ended its process or took longer than {seconds:g} s"
            lost += 1
    return found | dict.fromkeys(waiting, "it was not tried, since others ended their process or took too long")


def _answers_of_a_child(tasks: Tasks, seconds: float) -> Iterator[Any]:
    """The answers of a child in the order of the tasks, as many as it gives."""
    reading, writing = os.pipe()
    try:
        child = _fork()
    except OSError:  # such as too little memory
        os.close(reading)
        os.close(writing)
        return
    if child == 0:
        try:
            _run(tasks, writing, seconds)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        for line in _lines(reading, seconds + 1):
            yield json.loads(line)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):  # it is gone, and somebody else has waited for it
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that threads of the parent are not there: none is needed
        return os.fork()


def _lines(reading: int, seconds: float) -> Iterator[bytes]:
    """The lines of a pipe until it is closed, or one takes too long."""
    rest, until = b"", time.monotonic() + seconds
    while select.select([reading], [], [], max(until - time.monotonic(), 0))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if lines:
            until = time.monotonic() + seconds


def _run(tasks: Tasks, writing: int, seconds: float) -> None:
    """The child: answers line by line, until the clock ends it."""
    answering = _alone(writing)
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)  # the parent's are not there
    for task in tasks.values():
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            answer = task()
        except BaseException as fault:
            answer = f"it raised {type(fault).__name__}: {next(iter(str(fault).splitlines()), '')}"
        os.write(answering, json.dumps(answer).encode() + b"\n")


def _alone(writing: int) -> int:
    """Gives up all that the child shares with its parent but the pipe, and gives that back."""
    faulthandler.disable()
    gc.disable()  # objects of the parent's must not end here
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    answering = os.dup(writing) if writing < 3 else writing
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.closerange(3, answering)
    os.closerange(answering + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdout = sys.stderr = os.fdopen(1, "w")
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return answering
