# SPDX-License-Identifier: Apache-2.0
"""Does what cert-manager does: makes certificates with openssl, and puts them into secrets."""

import subprocess
from pathlib import Path

from manifests import Manifest

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
PUBLIC = "lockstep-tls"  # Users make this secret themselves, for clients.


def openssl(*command) -> None:
    subprocess.run(["openssl", "req", "-x509", *CURVE, "-days", "90", *command], check=True,
                   capture_output=True)


class Issuer:
    """Issues every certificate of a manifest again. The authorities are in a folder; a missing
    authority is made."""

    def __init__(self, folder: Path):
        self.folder = folder

    def authority(self, name: str) -> tuple:
        """The files of an authority's certificate and key."""
        found = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not found[0].exists():
            openssl("-subj", f"/CN={name}", "-out", found[0], "-keyout", found[1])
        return found

    def secret(self, authority: str, names: list) -> dict:
        """The data of a secret with a certificate for these names."""
        certificate, key = self.authority(authority)
        new = self.folder / "new.crt", self.folder / "new.key"
        openssl("-subj", f"/CN={names[0]}", "-out", new[0], "-keyout", new[1],
                "-CA", certificate, "-CAkey", key,
                "-addext", "basicConstraints=critical,CA:FALSE",
                "-addext", "extendedKeyUsage=serverAuth,clientAuth",
                "-addext", "subjectAltName=" + ",".join(f"DNS:{each}" for each in names))
        return {"tls.crt": new[0].read_text(), "tls.key": new[1].read_text(),
                "ca.crt": certificate.read_text()}

    def issue(self, manifest: Manifest) -> None:
        wanted = {each["spec"]["secretName"]: (each["spec"]["issuerRef"]["name"],
                                               each["spec"]["dnsNames"])
                  for each in manifest.of_kind("Certificate") if not each["spec"].get("isCA")}
        space = manifest.namespace
        wanted[PUBLIC] = "public", [f"lockstep.{space}.svc", f"lockstep.{space}.svc.cluster.local"]
        for name, (authority, names) in wanted.items():
            secret = next((each for each in manifest.of_kind("Secret")
                           if each["metadata"]["name"] == name), None)
            if secret is None:
                secret = {"kind": "Secret", "metadata": {"name": name, "namespace": space}}
                manifest.add(secret)
            secret["stringData"] = self.secret(authority, names)
