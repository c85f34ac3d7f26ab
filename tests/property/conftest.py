"""Profiles of hypothesis: `make test-nightly` asks for many more cases."""

from hypothesis import settings

settings.register_profile("nightly", max_examples=20_000)
