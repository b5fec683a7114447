"""Mistakes in a plain program, each on its line."""

from __future__ import annotations

import hooksdk
from hooksdk.sync import Host

with hooksdk.Host():  # error: it is async
    pass

with Host() as host, host.session("ann") as session:
    session.run(modell="x")  # error: no such parameter
    session.trim(1)  # error: not a reference
    print(session.messagess)  # error: no such property

host.session("ann").save(now=True)  # error: no such parameter
