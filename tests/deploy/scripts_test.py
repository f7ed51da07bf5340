# SPDX-License-Identifier: Apache-2.0
"""The scripts of deploy/k8s do what the pods, and a person with a cluster, need.

    scripts_test.py SOURCE"""

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path


class LaunchTest(unittest.TestCase):
    """Tests overlays/multi-gpu-node/launch.sh with a program in place of lockstep."""

    def launch(self, program, workers=2):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "lockstep").write_text("#!/bin/sh\n" + program)
        (folder / "lockstep").chmod(0o755)
        script = K8S / "overlays" / "multi-gpu-node" / "launch.sh"
        process = subprocess.Popen(
            ["bash", str(script), "worker"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder), "POD_INDEX": "3",
                 "POD_IP": "10.0.0.1", "DATA_PORT": "8082", "WORKERS": str(workers),
                 "LOCKSTEP_HEALTH": "0.0.0.0:8081"})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_each_worker_has_its_rank_device_and_ports_and_says_goodbye_at_the_end(self):
        process = self.launch("""trap 'echo goodbye "$LOCKSTEP_RANK"; exit 0' TERM
            echo "$1" "$LOCKSTEP_RANK $LOCKSTEP_DEVICE $LOCKSTEP_DATA_LISTEN $LOCKSTEP_HEALTH"
            while :; do sleep 0.01; done""")
        started = {process.stdout.readline().strip() for _ in range(2)}
        self.assertEqual(started, {"worker 6 cuda:0 10.0.0.1:8082 0.0.0.0:8081",
                                   "worker 7 cuda:1 10.0.0.1:8083"})
        process.terminate()
        self.assertEqual(set(process.stdout.read().splitlines()), {"goodbye 6", "goodbye 7"})
        self.assertEqual(process.wait(), 0)

    def test_a_worker_that_ends_is_started_again_and_the_others_stay(self):
        process = self.launch("""echo "$LOCKSTEP_RANK"
            [ "$LOCKSTEP_RANK" -ne 6 ] || exit 1
            while :; do sleep 0.01; done""")
        lines = [process.stdout.readline().strip() for _ in range(4)]
        self.assertEqual(sorted(lines), ["6", "6", "6", "7"])
        process.terminate()
        self.assertEqual(process.wait(), 0)

    def test_a_wrong_option_ends_all(self):
        process = self.launch("""[ "$LOCKSTEP_RANK" -ne 7 ] || exit 2
            while :; do sleep 0.01; done""")
        self.assertEqual(process.wait(), 2)


class VerifyTest(unittest.TestCase):
    """Tests verify.sh with a program in place of kubectl."""

    def verify(self, program):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "kubectl").write_text("#!/bin/sh\n" + program)
        (folder / "kubectl").chmod(0o755)
        return subprocess.run([str(K8S / "verify.sh")], capture_output=True, text=True,
                              env={"PATH": f"{folder}:{os.environ['PATH']}"})

    def test_it_says_that_it_was_skipped_if_no_cluster_answers(self):
        result = self.verify("exit 1")
        self.assertEqual((result.returncode, result.stdout),
                         (0, "verify: skipped: no cluster answers\n"))

    def test_it_leaves_a_namespace_alone_that_exists(self):
        result = self.verify('case "$*" in *delete*) echo deleted ;; esac')
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("namespace lockstep: must not exist", result.stderr)

    def test_an_overlay_that_the_cluster_refuses_is_named(self):
        result = self.verify("""case "$*" in
            "get namespace lockstep") exit 1 ;;
            *dry-run*lws.yaml) echo 'error: no matches for kind "LeaderWorkerSet"' >&2; exit 1 ;;
            *dry-run*cuda.yaml) echo "error: unknown field spec.x" >&2; exit 1 ;;
            "apply -f"*) exit 1 ;;
            esac""")
        self.assertEqual(result.returncode, 1)
        self.assertIn("rendered/cuda.yaml: refused", result.stdout)
        self.assertIn("rendered/lws.yaml: not compared, not installed: LeaderWorkerSet\n",
                      result.stdout)
        self.assertIn("rendered/lws.yaml: accepted", result.stdout)
        self.assertEqual(result.stdout.count("refused"), 1)


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
    K8S = Path(sys.argv[1]) / "deploy" / "k8s"
    unittest.main(argv=sys.argv[:1])
