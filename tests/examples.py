"""How many examples a property test draws: a fifth in `make test`, all in `make test-all`, more at night."""

from hypothesis import HealthCheck, settings

ALL = 100
"""`max_examples` of the default profile."""


def register_profiles() -> None:
    """Registers the profiles `default`, `quick` and `nightly`.

    No profile measures time: deadlines and the health check for slow data fail on a busy machine.
    """
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("default", untimed, max_examples=ALL)
    settings.register_profile("quick", untimed, max_examples=ALL // 5)
    settings.register_profile("nightly", untimed, max_examples=20_000)
    settings.load_profile("default")


def examples(count: int) -> int:
    """Returns `count` in the default profile, a proportional share in `quick`, and at least 20,000 in `nightly`."""
    asked = settings().max_examples
    return max(count, asked) if asked >= ALL else max(1, count * asked // ALL)
