"""Whether the machines of a Ray cluster can work for a driver, asked before anything is run."""

from collections.abc import Mapping
from typing import Any

import anyio

from s3gym.cluster.ray_worker import Job, check_machine
from s3gym.config import ClusterConfig
from s3gym.errors import ConfigError

PROBE_SECONDS = 90.0


async def check_machines(ray: Any, cluster: ClusterConfig, job: Job, token: str) -> None:
    """Check every machine of the cluster that has room for a study, and that one has.

    Args:
        ray: The module, connected.
        cluster: What a study asks of the cluster.
        job: What its tasks will get.
        token: What stands in a folder that all share; empty for another one.

    Raises:
        ConfigError: One cannot work for this driver; it and the reason are named.
    """
    machines = with_room(ray, cluster)
    probe = ray.remote(check_machine)
    at = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    problems: list[str] = []

    async def check(node: Mapping[str, Any]) -> None:
        strategy = at(node_id=node["NodeID"], soft=False)
        task = probe.options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
        try:
            with anyio.fail_after(PROBE_SECONDS):
                found = await task.remote(job.version, job.folder, token)
        except TimeoutError:
            found = f"{node['NodeManagerHostname']}: no answer in {PROBE_SECONDS:g} s"
        except ray.exceptions.TaskUnschedulableError:
            return  # it has just left the cluster
        except ray.exceptions.RayError as error:
            found = f"{node['NodeManagerHostname']}: cannot run s3gym: {last_line(error)}"
        if found:
            problems.append(str(found))

    async with anyio.create_task_group() as group:
        for node in machines:
            group.start_soon(check, node)
    if problems:
        raise ConfigError("\n".join(sorted(set(problems))))


def with_room(ray: Any, cluster: ClusterConfig) -> list[Any]:
    """Return the machines that have room for a study.

    Raises:
        ConfigError: There is none, and none will come.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = {"CPU": cluster.num_cpus, "GPU": cluster.num_gpus, **cluster.resources}
    fit = [
        node
        for node in nodes
        if all(node["Resources"].get(name, 0.0) >= amount for name, amount in asked.items())
    ]
    if fit or cluster.autoscaling:
        return fit
    most = {
        name: max((node["Resources"].get(name, 0.0) for node in nodes), default=0.0)
        for name in asked
    }
    wanted = ", ".join(f"{amount:g} {name}" for name, amount in asked.items() if amount)
    there = ", ".join(f"{most[name]:g} {name}" for name, amount in asked.items() if amount)
    raise ConfigError(
        f"cluster: a study asks one machine for {wanted}; no machine has that (at most {there}); "
        f"set cluster.autoscaling = true if one will come"
    )


def last_line(error: BaseException) -> str:
    """Return the last line of an error, which names the cause in Ray's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
