// SPDX-License-Identifier: Apache-2.0
#include "coordinator/metrics/workers_route.h"

#include "base/json.h"

namespace lockstep {
namespace {

OrderedJson worker_json(const WorkerState& worker) {
  return {{"role", role_name(worker.role)},
          {"rank", worker.rank < 0 ? OrderedJson(nullptr) : OrderedJson(worker.rank)},
          {"host", worker.host},
          {"pid", worker.pid},
          {"device", worker.device},
          {"isa", worker.isa},
          {"numeric_class", worker.numeric_class},
          {"data_address", worker.data_address},
          {"memory_bytes", worker.memory_bytes},
          {"weight_bytes", worker.weight_bytes},
          {"holds", worker.covers < 0 ? OrderedJson(nullptr) : OrderedJson(worker.covers)},
          {"holds_ms", worker.covers_ms},
          {"joined_ms", worker.joined_ms},
          {"heard_ms", worker.heard_ms}};
}

}  // namespace

http::Route workers_route(const Cluster* cluster) {
  return {"GET", "/workers", [cluster](const std::shared_ptr<http::Exchange>& exchange) {
            OrderedJson workers = OrderedJson::array();
            for (const WorkerState& worker : cluster->workers()) {
              workers.push_back(worker_json(worker));
            }
            // Names of hosts and devices come from workers: bytes that are not UTF-8 are replaced.
            exchange->respond(
                {.headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                 .body = write_json({{"workers", std::move(workers)}})});
          }};
}

}  // namespace lockstep
