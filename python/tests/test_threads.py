"""Workers change no bit, and calls may run at the same time."""

import concurrent.futures
import os
import sys
import threading
import time

import cases
import gradkern
import numpy as np
import pytest


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_any_number_of_workers_gives_the_same_bits(op):
    case = cases.make(op, batch=7)
    expected = case.call(gradkern)
    plan = gradkern.plan(getattr(gradkern, op), *case.inputs, **case.keywords, workers=2)
    for workers in (0, 2, 3, 8):
        assert np.array_equal(case.call(gradkern, workers=workers), expected)
        assert np.array_equal(plan(*case.inputs, workers=workers), expected)
    assert np.array_equal(plan(*case.inputs), expected)


def test_threads_may_share_a_plan():
    case = cases.make("convolution_backward_weights", batch=4)
    expected = case.call(gradkern)
    plan = gradkern.plan(gradkern.convolution_backward_weights, *case.inputs, **case.keywords, workers=2)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for result in threads.map(lambda _: plan(*case.inputs), range(200)):
            assert np.array_equal(result, expected)


def test_the_interpreter_runs_while_a_call_computes():
    x = np.ones((8, 64, 64, 64), np.float32)
    w = np.ones((3, 3, 64, 64), np.float32)
    counts = [0]
    done = threading.Event()

    def count():
        while not done.is_set():
            counts[0] += 1
            time.sleep(1e-4)

    counter = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody takes the lock from a thread that does not give it away
    try:
        counter.start()
        before = counts[0]
        gradkern.convolution(x, w, strides=(1, 1))
        after = counts[0]
    finally:
        sys.setswitchinterval(interval)
        done.set()
        counter.join()
    assert after > before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own():
    case = cases.make("convolution")
    expected = case.call(gradkern, workers=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(case.call(gradkern, workers=2), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
