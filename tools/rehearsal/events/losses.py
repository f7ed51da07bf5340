# SPDX-License-Identifier: Apache-2.0
"""Events in which processes, pods, nodes or resources are lost."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

from cluster import NODE_MONITOR_S
from events.rehearsal import Rehearsal, Unplayable
from events.slow_folder import DEVICE, SlowFolder
from events.updates import restart
from manifests import Broken

DEMO = "/usr/local/share/lockstep/demo"
SLOW_RATE = 200_000  # Bytes per second.
DESCRIPTORS = 64
LONG_ENOUGH_S = 5


def undisturbed(rehearsal: Rehearsal) -> None:
    time.sleep(3)


def kill(rehearsal: Rehearsal) -> None:
    if not rehearsal.workers():
        kill_process(rehearsal)
        return
    pod = rehearsal.worker()
    restarts = pod.restarts
    rehearsal.slot(pod).run.signal(signal.SIGKILL)
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 30, f"a restart of {pod.name}")


def kill_process(rehearsal: Rehearsal) -> None:
    """kill -9 of a worker that the server started in its own container."""
    pod = rehearsal.cluster.serving()[0]
    pid = rehearsal.slot(pod).run.pid
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True,
                           text=True, check=True).stdout.split()
    subprocess.run(["kill", "-9", rehearsal.draw.choice(found)], check=True)
    time.sleep(2)


def kill_server(rehearsal: Rehearsal) -> None:
    pod = rehearsal.cluster.serving()[0]
    restarts = pod.restarts
    rehearsal.slot(pod).run.signal(signal.SIGKILL)
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 30, "a restart of the server")


def delete(rehearsal: Rehearsal) -> None:
    pod = rehearsal.worker()
    rehearsal.cluster.delete(pod)
    rehearsal.cluster.wait(lambda: pod.gone, pod.grace + 10, f"the end of {pod.name}")


def node_gone(rehearsal: Rehearsal) -> None:
    cluster = rehearsal.cluster
    servers = {pod.node for pod in cluster.serving()}
    names = sorted({pod.node for pod in rehearsal.workers()} - servers)
    if not names:
        raise Unplayable("no node has workers and no server")
    name = rehearsal.draw.choice(names)
    node = next(each for each in cluster.nodes if each.name == name)
    cluster.lose_node(node)
    time.sleep(NODE_MONITOR_S)
    cluster.node_not_ready(node)
    cluster.remove_node(node)
    rehearsal.recovered()
    node.alive = True  # Another machine with the same name.


def out_of_memory(rehearsal: Rehearsal) -> None:
    """Another process in a worker's container takes all memory up to the limit. The worker's
    oom_score_adj makes the kernel kill the worker."""
    pod = rehearsal.worker()
    slot, restarts = rehearsal.slot(pod), pod.restarts
    Path(f"/proc/{slot.run.pid}/oom_score_adj").write_text("1000")
    rehearsal.cluster.probers.submit(slot.run.execute, ["sh", "-c", "head -c 8G /dev/zero | tail"])
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 60, f"a restart of {pod.name}")
    if "OOM" not in slot.last:
        raise Broken(f"out of memory: the kernel must end {pod.name}, found {slot.last}")


def full_disk(rehearsal: Rehearsal) -> None:
    """Every writable folder of every pod is full for a time."""
    filled = []
    for pod in rehearsal.cluster.pods():
        run = rehearsal.slot(pod).run
        for mount in pod.spec["containers"][0].get("volumeMounts", []):
            if not mount.get("readOnly"):
                file = f"{mount['mountPath']}/full"
                run.execute(["sh", "-c", f"head -c 64M /dev/zero >{file}"])
                filled.append((run, file))
    kill(rehearsal)
    rehearsal.recovered()
    for run, file in filled:
        run.execute(["rm", "-f", file])


def slow_volume(rehearsal: Rehearsal) -> None:
    """A worker's pod is replaced by one that reads the model from a slow volume: it must be live
    and not ready for as long as it loads."""
    if not Path(DEVICE).exists():
        raise Unplayable(f"{DEVICE} does not exist here")
    cluster, pod = rehearsal.cluster, rehearsal.worker()
    server = rehearsal.workload("serve")[1]["spec"]["containers"][0]
    model = cluster.manifest.environment(server, {}).get("LOCKSTEP_MODEL") or DEMO
    copy = rehearsal.folder / "model"
    shutil.copytree(f"/proc/{rehearsal.slot(pod).run.pid}/root{model}", copy, dirs_exist_ok=True)
    slow = SlowFolder(copy, rehearsal.folder / "slow", SLOW_RATE)
    name = pod.name
    cluster.options_of = lambda each: (
        [f"--volume={slow.point}:{model}:ro"] if each.name == name else [])

    def end() -> None:
        cluster.options_of = lambda each: []
        replace(rehearsal, name)
        cluster.say(f"{name}: read {slow.close()} bytes from the slow volume")
    rehearsal.after.append(end)
    new = replace(rehearsal, name)
    began = time.monotonic()
    cluster.wait(lambda: new.ready, rehearsal.patience, f"{name} is ready")
    cluster.say(f"{name}: was ready after {time.monotonic() - began:.1f} s with a slow volume")
    if new.restarts:
        raise Broken(f"slow volume: {name} must not restart, found {new.restarts} restarts")


def replace(rehearsal: Rehearsal, name: str):
    """Deletes a pod of a set, and returns the next one of its name."""
    cluster = rehearsal.cluster
    old = cluster.running[name].pod
    cluster.delete(old)

    def is_new() -> bool:
        each = cluster.running.get(name)
        return each is not None and each.pod is not old
    cluster.wait(is_new, old.grace + 10, f"another pod {name}")
    return cluster.running[name].pod


def few_descriptors(rehearsal: Rehearsal) -> None:
    """The server and all workers run for a time with few descriptors."""
    cluster = rehearsal.cluster
    # podman must be given all limits then; the number of processes is that of containers.conf.
    cluster.options_of = lambda each: [f"--ulimit=nofile={DESCRIPTORS}:{DESCRIPTORS}",
                                       "--ulimit=nproc=4096:4096"]

    def replace_all() -> None:
        restart(rehearsal, rehearsal.workload("serve")[1])
        for pod in rehearsal.workers():
            cluster.delete(pod)
        rehearsal.recovered()
    replace_all()
    time.sleep(LONG_ENOUGH_S)
    limits = Path(f"/proc/{rehearsal.slot(cluster.serving()[0]).run.pid}/limits").read_text()
    if f"Max open files            {DESCRIPTORS} " not in limits:
        raise Broken("few descriptors: the server must have few descriptors, found more")
    rehearsal.everyone_answers()
    cluster.options_of = lambda each: []
    replace_all()
