"""Versions of an application of DBOS: which one a worker is of, and the runs that no living worker is of."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast, final

from dbos import DBOS, DBOSClient, DBOSConfig, WorkflowStatus, _dbos  # pyright: ignore[reportPrivateUsage]

from hooksdk.config import without_password
from hooksdk.errors import ConfigError
from hooksdk.transcript import SharingStore, Store

logger = logging.getLogger("hooksdk")

# Stands for the steps that a run records: their order, names and answers. It is raised when a run that an earlier
# hooksdk has begun could not be replayed, and only then: all that wait would stand still.
STEPS = 1
# The prefix of the workers' executor ids, and of the sessions whose leases show that a worker lives. Other executors
# of DBOS are left alone.
PREFIX = "hooksdk~"
ACTIVE = ["PENDING", "ENQUEUED", "DELAYED"]
# The spaces with the version of each living worker, by executor id, and with the names of DBOS's schemas: whoever has
# the store alone learns from them that there are workflows, and where.
WORKERS, SCHEMAS = "hooksdk.dbos.workers", "hooksdk.dbos.schemas"


STANDING = (
    "%s, stand still: no worker of it lives, and this one is of '%s'. Start a worker of it, or move the runs to this one: "
    "https://hooksdk.readthedocs.io/en/latest/how-to/many-workers/#deploy-a-new-version"
)


@final
@dataclass(frozen=True)
class StandingRuns:
    """The open workflows of one version of an application of which no worker lives: they stand still.

    Attributes:
        since: When the oldest of them was started, in seconds since 1970.
        workflows: As DBOS lists them, without input and output, the oldest first.
    """

    application: str
    version: str
    since: float
    workflows: Sequence[WorkflowStatus]

    def __str__(self) -> str:
        count = len(self.workflows)
        return f"{count} run{'' if count == 1 else 's'} of {self.application}, version {self.version}"


def with_version(config: DBOSConfig) -> DBOSConfig:
    """The configuration with the application's version. Where it names none, upgrades of hooksdk and of DBOS leave it as
    it is while `STEPS` is; the code of workflows that are not hooksdk's counts, as it does for DBOS. Nothing is added
    where that code cannot be read: DBOS takes a version of its own then, another one in each release of it."""
    decided = config.get("application_version") or config.get("enable_patching") or os.environ.get("DBOS__APPVERSION")
    try:
        # In public DBOS tells nobody which workflows there are.
        workflows: Mapping[str, Any] = attrgetter("_dbos_global_registry.workflow_info_map")(_dbos)
        own = [one for one in workflows.values() if one.__module__.partition(".")[0] not in ("hooksdk", "dbos")]
        sources = sorted(map(inspect.getsource, own))
    except (AttributeError, OSError, TypeError):
        return config
    digest = f"-{hashlib.sha256(chr(0).join(sources).encode()).hexdigest()[:12]}" if sources else ""
    return config if decided else {**config, "application_version": f"{config.get('name')}-hooksdk-{STEPS}{digest}"}


async def find_standing(engine: type[DBOS] | DBOSClient, store: Store) -> list[StandingRuns]:
    """The open runs of versions of which no worker lives."""
    pauses = iter([0.5] * 20)
    while True:
        names = [one["version_name"] for one in await engine.list_application_versions_async()]
        runs = await engine.list_workflows_async(status=ACTIVE, app_version=names, load_input=False, load_output=False)
        # Leases are read after the runs, since a worker takes its lease before it runs anything.
        held = await cast("SharingStore", store).list_held(PREFIX)
        alive = {await store.get_value(WORKERS, name) for name, lives in held.items() if lives}
        pause = next(pauses, None) if None in alive else None
        if pause is None:
            break
        await asyncio.sleep(pause)  # a worker begins: it may be of any version
    found = defaultdict[tuple[str, str], list[WorkflowStatus]](list)  # the oldest first
    for run in runs:
        executor = run.executor_id or ""
        if held.get(executor) or (run.status == "PENDING" and not executor.startswith(PREFIX)):
            alive.add(run.app_version)
        elif executor.startswith(PREFIX):
            found[run.application_name or "", run.app_version or ""].append(run)
    standing = [(*key, runs) for key, runs in found.items() if key[1] not in alive]
    return [StandingRuns(name, version, (runs[0].created_at or 0) / 1000, runs) for name, version, runs in standing]


async def warn_of_standing(store: Store, application: str | None, told: Collection[str]) -> Collection[str]:
    """Say in the log that runs of this application stand still, but for versions of which it was `told`. Answers all of
    which it has been said now: where a version's runs stand still anew, it is said anew."""
    standing = [one for one in await find_standing(DBOS, store) if one.application == application]
    for one in standing:
        if one.version not in told:
            logger.warning(STANDING, one, DBOS.application_version)
    return [one.version for one in standing]


async def list_standing(store: Store, url: str) -> list[StandingRuns]:
    """The open runs of which no worker lives, by the store of their workers, and by DBOS's tables in the database at
    this URL. Nothing is changed, and nothing of a workflow is unpickled. Raises `ConfigError` where there are no such
    tables."""
    found, where = list[StandingRuns](), without_password(url)
    kind, _, file = url.partition(":///")
    if kind == "sqlite" and not await asyncio.to_thread(os.path.isfile, file):
        raise ConfigError("dbos", (f"there is no database at {where}",))
    for schema in await store.list_keys(SCHEMAS) or ["dbos"]:
        options: Any = {"dbos_system_schema": schema, "retry_connection_errors": False, "lazy": True}
        try:
            client = DBOSClient(system_database_url=url, **options)
            found += await find_standing(client, store)
            await asyncio.to_thread(client.destroy)
        except Exception as problem:  # DBOS's own, or of what it reaches its database with
            reason = str(getattr(problem, "orig", problem)).partition("\n")[0]
            raise ConfigError("dbos", (f"its tables cannot be read at {where}: {reason}",)) from problem
    return found
