"""What holds for every test: a slow moment of the machine is no failure of a property."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "memsieve", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("memsieve")

pytest_plugins = [
    "tests.support.brokers",
    "tests.support.postgres",
    "tests.support.qdrant",
]
