# SPDX-License-Identifier: Apache-2.0
"""Containers by podman, as the kubelet's runtime makes them."""

import json
import os
import select
import signal
import subprocess
from pathlib import Path

from manifests import Broken, quantity

SOURCE = Path(__file__).resolve().parents[2]
LABEL = "lockstep.rehearsal"
SHARED_MEMORY = "64k"  # The size of /dev/shm; Kubernetes gives 64 MiB.
ENVIRONMENT = {**os.environ, "CONTAINERS_CONF": str(SOURCE / "deploy/containers.conf")}


def podman(*command: str, check: bool = True, folder: Path | None = None) -> str:
    done = subprocess.run(["podman", *command], capture_output=True, text=True, check=False,
                          env=ENVIRONMENT, cwd=folder)
    if check and done.returncode != 0:
        raise Broken(f"podman {command[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def remove_all(own: bool) -> None:
    """Removes the containers of this rehearsal (`own`), or those that earlier rehearsals left."""
    found = json.loads(podman("ps", "-a", "--format=json", f"--filter=label={LABEL}") or "[]")
    mine = []
    for each in found:
        pid = each["Labels"][LABEL]
        if pid == str(os.getpid()) if own else not Path(f"/proc/{pid}").exists():
            mine.append(each["Id"])
    if mine:
        podman("rm", "-f", "-t", "0", *mine, check=False)


def security(pod: dict, container: dict) -> list:
    """podman's options for both security contexts."""
    context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    options = []
    if context.get("runAsNonRoot") and context.get("runAsUser", 1) == 0:
        raise Broken(f"container {container['name']}: runAsUser must not be 0 with runAsNonRoot")
    if "runAsUser" in context:
        group = context.get("runAsGroup", 0)
        options.append(f"--user={context['runAsUser']}:{group}")
    if "fsGroup" in context:
        options.append(f"--group-add={context['fsGroup']}")
    if context.get("readOnlyRootFilesystem"):
        options += ["--read-only", "--read-only-tmpfs=false"]
    if context.get("allowPrivilegeEscalation") is False:
        options.append("--security-opt=no-new-privileges")
    capabilities = context.get("capabilities", {})
    options += [f"--cap-drop={each}" for each in capabilities.get("drop", [])]
    options += [f"--cap-add={each}" for each in capabilities.get("add", [])]
    return options


def resources(container: dict) -> list:
    limits = container.get("resources", {}).get("limits", {})
    options = []
    if "memory" in limits:
        memory = round(quantity(limits["memory"]))
        options += [f"--memory={memory}b", f"--memory-swap={memory}b"]
    if "cpu" in limits:
        options.append(f"--cpus={quantity(limits['cpu'])}")
    for name in limits:
        if name not in ("memory", "cpu", "ephemeral-storage"):
            raise Broken(f"container {container['name']}: resource {name} cannot be rehearsed")
    return options


class Container:
    """A running container; a restart is another one."""

    def __init__(self, name: str, options: list, image: str, command: list, log: Path):
        # If the container is killed for lack of memory, conmon makes a file in its working folder.
        self.folder = log.with_suffix("")
        self.folder.mkdir(exist_ok=True)
        self.id = podman("run", "--detach", "--replace", "--pull=never", f"--name={name}",
                         f"--label={LABEL}={os.getpid()}", "--log-driver=k8s-file",
                         f"--log-opt=path={log}",
                         "--uts=private", "--no-healthcheck", f"--shm-size={SHARED_MEMORY}",
                         *options, image, *command,
                         folder=self.folder)
        self.code: int | None = None
        self.out_of_memory = False
        self.pid = int(podman("inspect", "--format={{.State.Pid}}", self.id))
        self.descriptor = None
        try:
            self.descriptor = os.pidfd_open(self.pid) if self.pid else None
        except ProcessLookupError:
            pass

    def running(self) -> bool:
        if self.code is not None:
            return False
        if self.descriptor is not None and not select.select([self.descriptor], [], [], 0)[0]:
            return True
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        podman("wait", self.id, check=False)
        state = json.loads(podman("inspect", "--format={{json .State}}", self.id))
        self.code = state["ExitCode"]
        self.out_of_memory = state["OOMKilled"] or (self.folder / "oom").exists()
        return False

    def signal(self, number: int) -> None:
        """Sends a signal to the container's first process, unless running() has seen its end."""
        if self.code is None and self.descriptor is not None:
            try:
                signal.pidfd_send_signal(self.descriptor, number)
            except ProcessLookupError:
                pass

    def execute(self, command: list, timeout: float | None = None) -> bool:
        """Runs a command inside; True if it succeeds in time."""
        try:
            return subprocess.run(["podman", "exec", self.id, *command], timeout=timeout,
                                  capture_output=True, env=ENVIRONMENT, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def remove(self) -> None:
        podman("rm", "-f", "-t", "0", self.id, check=False)
