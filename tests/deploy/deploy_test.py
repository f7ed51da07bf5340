# SPDX-License-Identifier: Apache-2.0
"""The rendered manifests of deploy/ are up to date and valid, and fit each other and the server.

    deploy_test.py SOURCE LOCKSTEP

SOURCE is the repository; the help of the binary LOCKSTEP lists the options and variables."""

import copy
import functools
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from broken import BROKEN  # noqa: E402
from manifest import Manifest  # noqa: E402
from references import names_are_there  # noqa: E402
import rules  # noqa: E402
from server import read_server  # noqa: E402

KUBERNETES = ("1.29", "1.33", "1.37")
RULES = rules.RULES + [names_are_there]
NO_SCHEMA = {"ServiceMonitor"}  # Prometheus' operator has it; no version of Kubernetes does.


@functools.cache
def server():
    return read_server(LOCKSTEP, SOURCE)


def overlays():
    return sorted(path.name for path in (K8S / "overlays").iterdir())


@functools.cache
def read_rendered(overlay):
    return Manifest.parse((K8S / "rendered" / f"{overlay}.yaml").read_text())


def rendered(overlay):
    """Returns a copy, which the caller may change."""
    return copy.deepcopy(read_rendered(overlay))


def sources():
    files = [path for folder in ("base", "components", "overlays")
             for path in (K8S / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(K8S)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files}


def kubectl_renders():
    if shutil.which("kubectl") is None:
        return False
    version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True)
    return "Kustomize Version: v5" in version.stdout


class RenderedTest(unittest.TestCase):
    def test_every_overlay_is_rendered_and_no_other_file_is_present(self):
        files = {path.name for path in (K8S / "rendered").iterdir()}
        self.assertEqual(files, {f"{each}.yaml" for each in overlays()} | {"SHA256SUMS"})

    def test_the_rendered_files_were_made_from_these_sources(self):
        lines = (K8S / "rendered" / "SHA256SUMS").read_text().splitlines()
        recorded = {line.split()[1]: line.split()[0] for line in lines}
        self.assertEqual(recorded, sources(), "run deploy/render.sh")

    def test_the_overlays_render_to_the_same_files(self):
        if not kubectl_renders():
            self.skipTest("no kubectl with kustomize 5: only the recorded hashes were compared")
        for overlay in overlays():
            again = subprocess.run(["kubectl", "kustomize", str(K8S / "overlays" / overlay)],
                                   capture_output=True, text=True, check=True).stdout
            self.assertEqual(again, (K8S / "rendered" / f"{overlay}.yaml").read_text(),
                             "run deploy/render.sh")


    def test_the_overlay_of_the_page_keeps_every_rule(self):
        if not kubectl_renders():
            self.skipTest("no kubectl with kustomize 5: the page's overlay was not rendered")
        page = (SOURCE / "docs" / "deploy.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(K8S, folder, dirs_exist_ok=True)
            mine = Path(folder, "overlays", "mine")
            mine.mkdir()
            (mine / "kustomization.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
            (mine / "SHA256SUMS").write_text("0" * 64 + "  config.json\n")
            text = subprocess.run(["kubectl", "kustomize", str(mine)], capture_output=True,
                                  text=True, check=True).stdout
        manifest = Manifest.parse(text)
        _, container = manifest.running("serve")[0]
        self.assertEqual(manifest.variables(container)["LOCKSTEP_QUANTIZE"], "q8")
        for rule in RULES:
            self.assertEqual(list(rule(manifest, server())), [])


class SchemaTest(unittest.TestCase):
    def test_every_object_keeps_the_schemas_of_three_versions(self):
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("no kubernetes-validate (PyPI): the schemas were not compared")
        for overlay in overlays():
            for each in rendered(overlay).objects:
                for version in KUBERNETES:
                    with self.subTest(overlay=overlay, thing=Manifest.name(each), version=version):
                        if each["kind"] not in NO_SCHEMA:
                            kubernetes_validate.validate(each, version, strict=True)

    def test_an_unknown_field_is_found(self):
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("no kubernetes-validate (PyPI): the schemas were not compared")
        deployment = rendered("cpu").of_kind("Deployment")[0]
        deployment["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
        for version in KUBERNETES:
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(deployment, version, strict=True)


class RulesTest(unittest.TestCase):
    def test_every_overlay_keeps_every_rule(self):
        for overlay in overlays():
            for rule in RULES:
                with self.subTest(overlay=overlay, rule=rule.__name__):
                    self.assertEqual(list(rule(rendered(overlay), server())), [])

    def test_every_broken_manifest_is_found(self):
        by_name = {rule.__name__: rule for rule in RULES}
        self.assertEqual({name for name, _, _ in BROKEN}, set(by_name), "a rule has no test")
        for number, (name, overlay, change) in enumerate(BROKEN):
            with self.subTest(rule=name, overlay=overlay, number=number):
                manifest = rendered(overlay)
                change(manifest)
                self.assertNotEqual(list(by_name[name](manifest, server())), [])


class ImageTest(unittest.TestCase):
    def test_the_image_installs_the_packages_of_the_binary_s_libraries(self):
        if shutil.which("dpkg-query") is None or shutil.which("objdump") is None:
            self.skipTest("no dpkg-query or no objdump")
        headers = subprocess.run(["objdump", "-p", LOCKSTEP], capture_output=True, text=True,
                                 check=True).stdout
        dockerfile = (SOURCE / "deploy" / "Dockerfile").read_text().split()
        for library in re.findall(r"NEEDED\s+(\S+)", headers):
            if re.match(r"lib(a|t|ub)san|libc\.so|libm\.so|libgcc_s|ld-linux", library):
                continue  # Libraries of a sanitizer's build, or of Debian's base.
            found = subprocess.run(["dpkg-query", "-S", f"/*-linux-gnu/{library}"],
                                   capture_output=True, text=True).stdout
            packages = {line.split(":")[0] for line in found.splitlines()}
            self.assertTrue(packages & set(dockerfile), f"{library}: no package of {packages}")


class DownloadTest(unittest.TestCase):
    """Tests components/model-download/download.sh with a server on loopback."""

    def setUp(self):
        if shutil.which("curl") is None:
            self.skipTest("no curl")
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        origin = self.folder / "origin"
        (origin / "sub").mkdir(parents=True)
        (origin / "config.json").write_text("{}")
        (origin / "sub" / "weights").write_bytes(bytes(range(256)) * 1000)
        self.asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(handler, *arguments):
                self.asked.append((handler.path, handler.headers.get("Authorization")))

        handler = functools.partial(Handler, directory=str(origin))
        http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        http_server.handle_error = lambda *arguments: None  # curl hangs up if it cannot resume.
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        self.addCleanup(http_server.server_close)
        self.addCleanup(http_server.shutdown)
        self.url = f"http://127.0.0.1:{http_server.server_port}"
        self.sums = {name: hashlib.sha256((origin / name).read_bytes()).hexdigest()
                     for name in ("config.json", "sub/weights")}

    def download(self, sums):
        (self.folder / "SUMS").write_text("".join(f"{sums[name]}  {name}\n" for name in sums))
        script = K8S / "components" / "model-download" / "download.sh"
        return subprocess.run(["sh", str(script), str(self.folder / "SUMS"),
                               str(self.folder / "model")], capture_output=True, text=True,
                              env={**os.environ, "MODEL_URL": self.url, "MODEL_TOKEN": "secret"})

    def test_files_are_downloaded_once_with_the_token(self):
        self.assertEqual(self.download(self.sums).returncode, 0)
        for name in self.sums:
            self.assertEqual((self.folder / "model" / name).read_bytes(),
                             (self.folder / "origin" / name).read_bytes())
        self.assertEqual({token for _, token in self.asked}, {"Bearer secret"})
        self.asked.clear()
        self.assertEqual(self.download(self.sums).returncode, 0)
        self.assertEqual(self.asked, [])

    def test_a_file_that_differs_from_the_list_is_not_kept(self):
        result = self.download({**self.sums, "config.json": "0" * 64})
        self.assertEqual(result.returncode, 1)
        self.assertIn("config.json has another SHA-256", result.stderr)
        self.assertFalse((self.folder / "model" / "config.json").exists())
        self.assertFalse((self.folder / "model" / "config.json.part").exists())

    def test_a_broken_download_is_finished_even_if_the_server_cannot_resume(self):
        (self.folder / "model" / "sub").mkdir(parents=True)
        (self.folder / "model" / "sub" / "weights.part").write_bytes(bytes(range(256)))
        result = self.download(self.sums)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_names_stay_in_the_folder(self):
        for name in ("../config.json", "/config.json"):
            self.assertEqual(self.download({name: "0" * 64}).returncode, 1)
        self.assertEqual(self.asked, [])

    def test_a_missing_file_is_an_error(self):
        self.assertNotEqual(self.download({"no-such-file": "0" * 64}).returncode, 0)


if __name__ == "__main__":
    SOURCE, LOCKSTEP = Path(sys.argv[1]), sys.argv[2]
    K8S = SOURCE / "deploy" / "k8s"
    unittest.main(argv=sys.argv[:1])
