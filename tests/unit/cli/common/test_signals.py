"""How signals stop a command."""

import contextlib
import signal
import threading

import pytest

from cli.common.signals import SIGNALS, StoppedError, uninterrupted, until_stopped


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_leaves_the_block_and_the_old_handlers_are_restored(number):
    before = [signal.getsignal(handled) for handled in SIGNALS]
    reached = False
    with until_stopped():
        signal.raise_signal(number)
        reached = True
    assert not reached
    assert [signal.getsignal(handled) for handled in SIGNALS] == before


def test_more_signals_do_not_interrupt_the_cleanup():
    ended = []
    with until_stopped(), contextlib.ExitStack() as stack:
        stack.callback(ended.append, "first")
        stack.callback(lambda: [signal.raise_signal(number) for number in SIGNALS])
        signal.raise_signal(signal.SIGINT)
    assert ended == ["first"]


def test_a_suppressed_signal_still_ends_the_wait():
    with until_stopped() as stop:
        with contextlib.suppress(StoppedError):
            signal.raise_signal(signal.SIGTERM)
        stop.wait()


def test_an_error_passes_through():
    with pytest.raises(ValueError, match="its own"), until_stopped():
        raise ValueError("its own")


def test_an_uninterrupted_block_finishes_before_the_signal_is_handled():
    steps = []
    with until_stopped():
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            steps.append("done")
        steps.append("never reached")
    assert steps == ["done"]


def test_an_uninterrupted_block_in_a_thread_keeps_the_handlers():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
