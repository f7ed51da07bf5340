# SPDX-License-Identifier: Apache-2.0
"""The rendered manifests of deploy/ are up to date and valid, and fit each other and the server.

    deploy_test.py SOURCE LOCKSTEP

SOURCE is the repository; the help of the binary LOCKSTEP lists the options and variables."""

import copy
import functools
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from broken import BROKEN, BROKEN_CUSTOM  # noqa: E402
from manifest import Manifest, folders_of  # noqa: E402
import conflicts  # noqa: E402
import flows  # noqa: E402
import groups  # noqa: E402
import pods  # noqa: E402
import references  # noqa: E402
import schemas  # noqa: E402
import security  # noqa: E402
from server import read_server  # noqa: E402

RULES = [rule for each in (pods, security, groups, references, flows, conflicts)
         for rule in each.RULES]


@functools.cache
def server():
    return read_server(LOCKSTEP, SOURCE)


def overlays():
    return sorted(path.name for path in (K8S / "overlays").iterdir())


@functools.cache
def read_rendered(overlay):
    return Manifest.parse((K8S / "rendered" / f"{overlay}.yaml").read_text(),
                          folders_of(K8S / "overlays" / overlay))


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

        def render(overlay):
            return subprocess.run(["kubectl", "kustomize", str(K8S / "overlays" / overlay)],
                                  capture_output=True, text=True, check=True).stdout

        with ThreadPoolExecutor() as pool:
            found = dict(zip(overlays(), pool.map(render, overlays())))
        for overlay, again in found.items():
            self.assertEqual(again, (K8S / "rendered" / f"{overlay}.yaml").read_text(),
                             "run deploy/render.sh")

    def test_the_overlay_of_the_page_keeps_every_rule(self):
        if not kubectl_renders():
            self.skipTest("no kubectl with kustomize 5: the page's overlay was not rendered")
        page = (K8S / "README.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(K8S, folder, dirs_exist_ok=True)
            mine = Path(folder, "overlays", "mine")
            mine.mkdir()
            (mine / "kustomization.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
            (mine / "SHA256SUMS").write_text("0" * 64 + "  config.json\n")
            text = subprocess.run(["kubectl", "kustomize", str(mine)], capture_output=True,
                                  text=True, check=True).stdout
            manifest = Manifest.parse(text, folders_of(mine))
        _, container = manifest.running("serve")[0]
        self.assertEqual(manifest.variables(container)["LOCKSTEP_QUANTIZE"], "q8")
        for rule in RULES:
            self.assertEqual(list(rule(manifest, server())), [])


@unittest.skipIf(kubernetes_validate is None, "no kubernetes-validate (PyPI)")
class SchemaTest(unittest.TestCase):
    def test_every_object_keeps_the_schemas_of_its_versions(self):
        custom = schemas.read_custom(CRDS)
        seen = set()
        for overlay in overlays():
            manifest = rendered(overlay)
            for each in schemas.kubernetes_objects(manifest, custom):
                for version in schemas.versions(manifest):
                    if (text := f"{version} {each}") in seen:
                        continue
                    seen.add(text)
                    with self.subTest(overlay=overlay, thing=Manifest.name(each), version=version):
                        kubernetes_validate.validate(each, version, strict=True)

    def test_every_custom_resource_keeps_its_schema(self):
        custom = schemas.read_custom(CRDS)
        used = set()
        for overlay in overlays():
            for each in rendered(overlay).objects:
                if (key := (each["apiVersion"], each["kind"])) in custom:
                    used.add(key)
                    with self.subTest(overlay=overlay, thing=Manifest.name(each)):
                        self.assertEqual(schemas.custom_faults(each, custom), [])
        self.assertEqual(used, set(custom), "a schema has no object")

    def test_an_unknown_field_of_kubernetes_is_found(self):
        manifest = rendered("lws")
        for each in (rendered("cpu").of_kind("Deployment")[0]["spec"]["template"]["spec"],
                     manifest.templates()[0].pod):
            each["terminationGracePeriod"] = 5
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": each}
            for version in schemas.KUBERNETES:
                with self.assertRaises(kubernetes_validate.ValidationError):
                    kubernetes_validate.validate(pod, version, strict=True)

    def test_every_broken_custom_resource_is_found(self):
        custom = schemas.read_custom(CRDS)
        self.assertEqual({kind for kind, _, _ in BROKEN_CUSTOM}, {kind for _, kind in custom},
                         "a schema has no test")
        for number, (kind, overlay, change) in enumerate(BROKEN_CUSTOM):
            with self.subTest(kind=kind, overlay=overlay, number=number):
                each = rendered(overlay).of_kind(kind)[0]
                change(each)
                self.assertNotEqual(schemas.custom_faults(each, custom), [])


class PageTest(unittest.TestCase):
    """Tests deploy/k8s/README.md."""

    def page(self):
        return (K8S / "README.md").read_text()

    def test_it_names_every_overlay_and_every_component(self):
        for folder in ("overlays", "components"):
            for each in (K8S / folder).iterdir():
                self.assertIn(f"`{each.name}`", self.page())

    def test_it_names_every_variable_that_an_overlay_sets(self):
        values = self.page().split("## Values")[1].split("## Network flows")[0]
        for overlay in overlays():
            for each in rendered(overlay).of_kind("ConfigMap"):
                for name in each["data"]:
                    if name != "download.sh" and name != "launch.sh":
                        self.assertIn(f"`{name}`", values)

    def test_a_first_token_takes_eight_commands_whose_files_and_names_exist(self):
        section = self.page().split("## From nothing")[1].split("\n## ")[0]
        commands = re.findall(r"^    (\S.*)", section, re.M)
        self.assertEqual(len(commands), 8)
        text = "\n".join(commands)
        file = re.search(r" -f (\S+)", text)[1]
        target, image = re.search(r"--target (\S+) .*-t (\S+)", text).groups()
        self.assertIn(f" AS {target}\n", (SOURCE / file).read_text())
        overlay = Path(re.search(r"apply -k (\S+)", text)[1])
        manifest = rendered(overlay.name)
        self.assertEqual(overlay, Path("deploy/k8s/overlays") / overlay.name)
        self.assertEqual({container["image"] for _, container in manifest.ours()}, {image})
        self.assertIn(f"load docker-image {image}\n", text)
        namespace = manifest.of_kind("Namespace")[0]["metadata"]["name"]
        self.assertEqual(set(re.findall(r"-n (\S+)", text)), {namespace})
        secret, key = re.search(r"secret generic (\S+) --from-literal=(\w+)=", text).groups()
        used = {(name, key) for template in manifest.templates()
                for kind, name, key in references.references(template) if kind == "Secret"}
        self.assertEqual(used, {(secret, key)})
        names = {(each["kind"].lower(), each["metadata"]["name"]) for each in manifest.objects}
        self.assertIn(("deployment", re.search(r"status deployment (\S+)", text)[1]), names)
        service, port = re.search(r"port-forward service/(\S+) (\d+)", text).groups()
        ports = [each["spec"]["ports"] for each in manifest.of_kind("Service")
                 if each["metadata"]["name"] == service][0]
        self.assertIn(int(port), [each["port"] for each in ports])
        self.assertIn(f"http://127.0.0.1:{port}/v1/completions", text)


class RulesTest(unittest.TestCase):
    def test_every_overlay_keeps_every_rule(self):
        for overlay in overlays():
            for rule in RULES:
                with self.subTest(overlay=overlay, rule=rule.__name__):
                    self.assertEqual(list(rule(rendered(overlay), server())), [])

    def test_one_overlay_can_be_applied_after_another(self):
        manifests = {overlay: rendered(overlay) for overlay in overlays()}
        self.assertEqual(list(conflicts.overlays_follow_each_other(manifests)), [])
        for kind, *path, value in (("Deployment", "spec", "selector", {"matchLabels": {}}),
                                   ("StatefulSet", "spec", "podManagementPolicy", "OrderedReady"),
                                   ("Service", "spec", "clusterIP", "None"),
                                   ("PriorityClass", "value", 1)):
            with self.subTest(kind=kind):
                broken = {**manifests, "cuda": rendered("cuda")}
                conflicts.field(broken["cuda"].of_kind(kind)[0], path[:-1])[path[-1]] = value
                self.assertNotEqual(list(conflicts.overlays_follow_each_other(broken)), [])

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
        # Libraries of a sanitizer's build and of Debian's base image need no package.
        libraries = [each for each in re.findall(r"NEEDED\s+(\S+)", headers) if not re.match(
            r"lib(a|t|ub)san|libc\.so|libm\.so|libgcc_s|ld-linux", each)]
        # dpkg-query is slow for patterns, so it gets whole paths. Some packages still use /lib.
        paths = [f"{root}{path}" for library in libraries for root in ("", "/usr")
                 for path in map(str, Path("/lib").glob(f"*-linux-gnu/{library}"))]
        found = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True,
                               text=True).stdout.splitlines()
        for library in libraries:
            packages = {line.split(":")[0] for line in found if line.endswith(f"/{library}")}
            self.assertTrue(packages & set(dockerfile), f"{library}: no package of {packages}")


if __name__ == "__main__":
    SOURCE, LOCKSTEP = Path(sys.argv[1]), sys.argv[2]
    K8S = SOURCE / "deploy" / "k8s"
    CRDS = SOURCE / "tests" / "data" / "crds"
    unittest.main(argv=sys.argv[:1])
