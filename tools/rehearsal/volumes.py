# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod, as folders of this machine."""

import shutil
import subprocess
from pathlib import Path

from manifests import Broken, Manifest, quantity


class Volumes:
    def __init__(self, pod, folder: Path):
        self.pod, self.folder = pod, folder
        self.specs = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
        self.paths: dict[str, Path] = {}

    def options(self, manifest: Manifest, container: dict) -> list:
        """podman's options for a container's mounts."""
        found = []
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in self.specs:
                raise Broken(f"volumeMount {mount['name']}: must name a volume, found none")
            found.append(self.option(manifest, self.specs[mount["name"]], mount))
        return found

    def option(self, manifest: Manifest, volume: dict, mount: dict) -> str:
        if "image" in volume:
            return (f"--mount=type=image,source={volume['image']['reference']},"
                    f"destination={mount['mountPath']}")
        name = volume["name"]
        if name not in self.paths:
            self.paths[name] = self.make(manifest, volume)
        path = self.paths[name]
        if "subPath" in mount:
            path = path / mount["subPath"]
            path.mkdir(exist_ok=True)
        read_only = mount.get("readOnly") or "configMap" in volume or "secret" in volume
        return f"--volume={path}:{mount['mountPath']}:{'ro' if read_only else 'rw'}"

    def make(self, manifest: Manifest, volume: dict) -> Path:
        """All pods share the folder of a claim; the pods of one node share that of a hostPath."""
        root, path = self.folder.parents[1], self.folder / "volumes" / volume["name"]
        if "persistentVolumeClaim" in volume:
            path = root / "claims" / volume["persistentVolumeClaim"]["claimName"]
        elif "hostPath" in volume:
            path = root / self.pod.node / volume["hostPath"]["path"].strip("/")
        elif not {"emptyDir", "configMap", "secret"} & set(volume):
            raise Broken(f"volume {volume['name']}: its kind cannot be rehearsed")
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        if "emptyDir" in volume and volume["emptyDir"].get("medium") == "Memory":
            size = volume["emptyDir"].get("sizeLimit")
            limit = f",size={round(quantity(size))}" if size else ""
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0777{limit}", "tmpfs", path],
                           check=True)
        self.write(manifest, volume, path)
        if "hostPath" not in volume:
            self.give(path)
        return path

    def give(self, path: Path) -> None:
        """The pod's group owns the folder or file."""
        group = self.pod.spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            shutil.chown(path, group=group)

    def write(self, manifest: Manifest, volume: dict, path: Path) -> None:
        """Writes the files of a ConfigMap or a Secret that are new or changed."""
        if "secret" in volume:
            source, kind, name = volume["secret"], "Secret", volume["secret"]["secretName"]
        elif "configMap" in volume:
            source, kind, name = volume["configMap"], "ConfigMap", volume["configMap"]["name"]
        else:
            return
        values = manifest.data(kind, name)
        for item in source.get("items") or [{"key": key, "path": key} for key in values]:
            if item["key"] not in values:
                raise Broken(f"{kind} {name}: must have the key {item['key']}, found "
                             f"{', '.join(values)}")
            file = path / item["path"]
            if not file.exists() or file.read_bytes() != values[item["key"]]:
                new = file.with_name(f".{file.name}.new")
                new.write_bytes(values[item["key"]])
                new.chmod(source.get("defaultMode", 0o644))
                self.give(new)
                new.replace(file)

    def sync(self, manifest: Manifest) -> None:
        for name, path in self.paths.items():
            self.write(manifest, self.specs[name], path)

    def close(self) -> None:
        for path in self.paths.values():
            subprocess.run(["umount", path], check=False, capture_output=True)
