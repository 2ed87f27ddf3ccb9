"""What a scenario is given, and what it leaves behind beside its lines."""

import dataclasses
import pathlib

from ..console import say, skip
from ..gate import check
from ..loads import Load
from ..machine import Cpus
from ..process import Server, Stage
from ..rounds import without_port
from ..servers import Contender, Tared
from ..tools import NodeModule, Tool


@dataclasses.dataclass
class Setting:
    tared: Tared
    scratch: pathlib.Path
    cpus: Cpus
    quick: bool
    skipped: set[str] = dataclasses.field(default_factory=set)  # why something was not measured
    versions: set[str] = dataclasses.field(default_factory=set)
    commands: list[list[str]] = dataclasses.field(default_factory=list)

    def can_run(self, name: str, *needs: Tool | NodeModule) -> bool:
        """Notes the versions of what is there, and says once what is not."""
        trouble = next((tool.missing for tool in needs if tool.missing), None)
        if trouble:
            skip(name, trouble, self.skipped)
            return False
        self.versions.update(tool.version for tool in needs)
        return True

    def lacks(self, contender: Contender) -> bool:
        why = contender.missing()
        if why:
            skip(contender.name, why, self.skipped)
        return why is not None

    def note_command(self, command: list[str], *servers: Server) -> None:
        """Without the ports of those servers, which differ from run to run."""
        for server in servers:
            command = without_port(command, server)
        self.commands.append(command)

    def fault_of(self, server: Server, load: Load, stage: Stage, document: str) -> str | None:
        """Notes its version, and checks its answer as the load will ask for it."""
        self.versions.update(server.version.split(", "))
        fault = check(server, load, stage.documents / document)
        if fault:
            say(f"{server.name} fails before it is measured: {fault}")
        return fault
