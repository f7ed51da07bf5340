#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster with workers on several hosts has the same bits as one process, and recovers.

    tests/hosts/hosts_test.py LOCKSTEP                 simulated hosts, over loopback
    tests/hosts/hosts_test.py LOCKSTEP --namespaces    network namespaces, as root

No figure here depends on the machine's speed.
"""
import signal
import sys
import unittest

from cluster import Cluster, Loopback, Namespaces

LOCKSTEP = sys.argv[1]
network = Namespaces(3) if "--namespaces" in sys.argv else Loopback()


def started(hosts: list, *arguments: str) -> Cluster:
    return Cluster(LOCKSTEP, network, hosts, *arguments)


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with started([0]) as one_process:
            cls.want = one_process.text()

    def test_ranks_on_any_hosts_give_the_bits_of_one_process(self):
        for hosts in [[0, 1], [0, 1, 2], [0, 0, 1], [1, 0, 1]]:
            for strategy in ["gather", "reduce"]:
                with self.subTest(hosts=hosts, strategy=strategy):
                    with started(hosts, "--strategy", strategy) as cluster:
                        text = cluster.text()
                        self.assertIn("connected to", "".join(cluster.workers[0].log))
                        if strategy == "gather":
                            self.assertEqual(text, self.want)
                        else:
                            self.assertEqual(text, cluster.text())

    def test_a_killed_worker_comes_back_and_the_bits_are_the_same(self):
        with started([0, 1]) as cluster:
            self.assertEqual(cluster.text(), self.want)
            for rank in [1, 0]:
                lines = len(cluster.server.log)
                cluster.workers[rank].close()
                cluster.server.wait_for("was lost", lines)
                cluster.workers[rank] = cluster.worker(rank)
                self.assertEqual(cluster.eventually(), self.want)

    def test_a_stopped_worker_is_lost_and_its_late_frames_do_no_harm(self):
        with started([0, 1, 1]) as cluster:
            self.assertEqual(cluster.text(), self.want)
            lines = len(cluster.server.log)
            cluster.workers[2].popen.send_signal(signal.SIGSTOP)
            cluster.server.wait_for("was lost", lines)
            cluster.workers[2].popen.send_signal(signal.SIGCONT)
            self.assertEqual(cluster.eventually(), self.want)

    def test_a_worker_without_a_data_port_is_refused_with_the_way_out(self):
        with started([0, 1]) as cluster:
            lone = cluster.process(0, "worker", "--coordinator", cluster.joins_at, "--threads", "1",
                                   "--host-name", "elsewhere")
            lone.wait_for(r"--data-listen ADDRESS:PORT and --cluster-cert or --insecure cluster")
            lone.close()
            self.assertEqual(cluster.text(), self.want)


if __name__ == "__main__":
    with network:
        unittest.main(argv=sys.argv[:1], verbosity=2)
