"""What holds for every test: a slow moment of the machine is no failure of a property.

Properties try the same examples each time: who has changed nothing sees nothing fail. Others are
tried with `pytest --hypothesis-profile search`.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("memsieve", settings.get_profile("search"), derandomize=True)
settings.load_profile("memsieve")

pytest_plugins = [
    "tests.support.machine.alone",
    "tests.support.servers.brokers",
    "tests.support.servers.postgres",
    "tests.support.servers.qdrant",
]
