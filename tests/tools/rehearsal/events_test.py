# SPDX-License-Identifier: Apache-2.0
"""The events of tools/rehearsal: autoscalers, certificates, slow files, the proxy's settings."""

import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tools/rehearsal"))

from events import slow_folder  # noqa: E402
from events.autoscaler import KINDS, Autoscaler, gauges  # noqa: E402
from events.certificates import Issuer  # noqa: E402
from events.proxy import COMPONENT, GRPC_PORT, HTTP_PORT  # noqa: E402
from manifests import Manifest  # noqa: E402

RENDERED = SOURCE / "deploy/k8s/rendered"
METRICS = """# HELP lockstep:num_requests_waiting Requests
# TYPE lockstep:num_requests_waiting gauge
lockstep:num_requests_waiting{model_name="demo"} 20
lockstep:num_requests_waiting_by_reason{reason="capacity",model_name="demo"} 7
vllm:kv_cache_usage_perc 0.25
"""


def rendered(overlay: str) -> Manifest:
    return Manifest.parse((RENDERED / f"{overlay}.yaml").read_text())


class AutoscalerTest(unittest.TestCase):
    def test_gauges_are_read_with_both_prefixes(self):
        found = gauges(METRICS)
        self.assertEqual(found["num_requests_waiting"], 20)
        self.assertEqual(found["num_requests_waiting_by_reason"], 7)
        self.assertEqual(found["kv_cache_usage_perc"], 0.25)

    def test_hpa_and_keda_ask_for_the_same_number_of_groups(self):
        kinds = set()
        for overlay in ("lws", "lws-full"):
            manifest = rendered(overlay)
            kinds |= {kind for kind in KINDS if manifest.of_kind(kind)}
            one = Autoscaler.of(manifest)
            self.assertEqual(one.target, ("LeaderWorkerSet", "lockstep-group"))
            self.assertEqual(one.limits, {"num_requests_waiting": 8, "kv_cache_usage_perc": 0.8})
            self.assertEqual((one.low, one.high), (1, 4))

            def pod(waiting, usage):
                return {"num_requests_waiting": waiting, "kv_cache_usage_perc": usage}
            self.assertEqual(one.desired(1, [pod(0, 0)]), 1)
            self.assertEqual(one.desired(1, [pod(8.5, 0.1)]), 1)  # Within the tolerance.
            self.assertEqual(one.desired(1, [pod(9, 0.1)]), 2)
            self.assertEqual(one.desired(1, [pod(0, 0.95)]), 2)
            self.assertEqual(one.desired(2, [pod(20, 0.1), pod(4, 0.1)]), 3)
            self.assertEqual(one.desired(2, [pod(0, 0.1), pod(0, 0.1)]), 1)
            self.assertEqual(one.desired(1, [pod(500, 1)]), 4)
        self.assertEqual(kinds, set(KINDS))

    def test_an_overlay_without_an_autoscaler_has_none(self):
        self.assertIsNone(Autoscaler.of(rendered("cpu")))


class CertificatesTest(unittest.TestCase):
    def test_each_secret_gets_a_new_certificate_of_the_same_authority(self):
        manifest = rendered("spare-tls")
        with tempfile.TemporaryDirectory() as folder:
            issuer = Issuer(Path(folder))
            issuer.issue(manifest)
            first = {name: manifest.data("Secret", name) for name in (
                "lockstep-tls", "lockstep-coordinator-tls", "lockstep-worker-tls")}
            issuer.issue(manifest)
            for name, before in first.items():
                now = manifest.data("Secret", name)
                self.assertNotEqual(now["tls.crt"], before["tls.crt"])
                self.assertEqual(now["ca.crt"], before["ca.crt"])
                for key in ("ca.crt", "tls.crt"):
                    Path(folder, key).write_bytes(now[key])
                subprocess.run(["openssl", "verify", "-CAfile", f"{folder}/ca.crt",
                                f"{folder}/tls.crt"], check=True, capture_output=True)
            text = subprocess.run(["openssl", "x509", "-noout", "-text"], check=True, text=True,
                                  capture_output=True,
                                  input=first["lockstep-coordinator-tls"]["tls.crt"].decode())
            self.assertIn("DNS:lockstep-coordinator,", text.stdout)
            self.assertNotEqual(first["lockstep-tls"]["ca.crt"],
                                first["lockstep-worker-tls"]["ca.crt"])


class SlowFolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        Path(self.folder.name, "model").write_bytes(b"0123456789")
        self.slept = []
        self.files = slow_folder.SlowFiles(Path(self.folder.name), 4.0, self.slept.append)

    def find(self, name: bytes):
        return self.files.answer(slow_folder.LOOKUP, slow_folder.ROOT, name + b"\0")

    def test_a_file_is_found_by_its_name_with_its_size(self):
        found = self.find(b"model")
        node, size = struct.unpack_from("<Q", found)[0], struct.unpack_from("<Q", found, 48)[0]
        self.assertEqual((node, size, len(found)), (2, 10, 128))
        self.assertEqual(self.find(b"other"), slow_folder.NO_ENTRY)

    def test_a_read_takes_as_long_as_its_bytes_need(self):
        for offset, size, want in ((0, 4, b"0123"), (8, 4, b"89"), (20, 4, b"")):
            body = struct.pack("<QQI", 2, offset, size)
            self.assertEqual(self.files.answer(slow_folder.READ, 2, body), want)
        self.assertEqual(self.slept, [1.0, 0.5, 0.0])
        self.assertEqual(self.files.bytes, 6)

    def test_nothing_can_be_written(self):
        write = 16
        self.assertEqual(self.files.answer(write, 2, b""), slow_folder.NOT_SUPPORTED)


class ProxyTest(unittest.TestCase):
    def test_the_proxy_finds_its_servers_by_the_service_of_the_component(self):
        service = yaml.safe_load((COMPONENT / "service.yaml").read_text())
        meta, ports = service["metadata"], {each["port"] for each in service["spec"]["ports"]}
        host = f"{meta['name']}.{meta['namespace']}.svc.cluster.local"
        settings = (COMPONENT / "haproxy.cfg").read_text()
        servers = re.findall(r"server-template \S+ \d+ (\S+):(\d+)", settings)
        self.assertEqual(servers, [(host, str(port)) for port in sorted(ports)])
        self.assertEqual(re.findall(r"bind :(\d+)", settings), [str(HTTP_PORT), str(GRPC_PORT)])
        labels = rendered("lws").of_kind("LeaderWorkerSet")[0]["spec"]["leaderWorkerTemplate"][
            "leaderTemplate"]["metadata"]["labels"]
        self.assertEqual(labels, {**labels, **service["spec"]["selector"]})


if __name__ == "__main__":
    unittest.main()
