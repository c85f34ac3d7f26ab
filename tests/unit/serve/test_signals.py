"""How a command is stopped."""

import contextlib
import signal
import threading

import pytest

from cli.common.signals import SIGNALS, StoppedError, uninterrupted, until_stopped


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_the_block_and_the_old_handlers_come_back(number):
    before = [signal.getsignal(each) for each in SIGNALS]
    reached = False
    with until_stopped():
        signal.raise_signal(number)
        reached = True
    assert not reached
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_more_signals_do_not_cut_the_end_short():
    ended = []
    with until_stopped(), contextlib.ExitStack() as stack:
        stack.callback(ended.append, "first")
        stack.callback(lambda: [signal.raise_signal(number) for number in SIGNALS])
        signal.raise_signal(signal.SIGINT)
    assert ended == ["first"]


def test_a_signal_that_was_swallowed_still_ends_the_waiting():
    with until_stopped() as stop:
        with contextlib.suppress(StoppedError):
            signal.raise_signal(signal.SIGTERM)
        stop.wait()


def test_an_error_passes_through():
    with pytest.raises(ValueError, match="its own"), until_stopped():
        raise ValueError("its own")


def test_a_decisive_moment_is_over_before_the_signal_is_heard():
    steps = []
    with until_stopped():
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            steps.append("done")
        steps.append("never reached")
    assert steps == ["done"]


def test_a_thread_has_nothing_to_protect_from_signals():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
