// SPDX-License-Identifier: Apache-2.0
// Maps methods and paths to handlers by a table. tests/deploy checks that the probes in the
// manifests use paths of such tables.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep::http {

// For "/v1/streams/{request}": {"request", "cmpl-1"}.
using PathParameters = std::vector<std::pair<std::string, std::string>>;
using RouteHandler =
    std::function<void(std::shared_ptr<Exchange> exchange, const PathParameters& parameters)>;

struct Route {
  // A handler of a path without parameters may be a Handler.
  template <typename Function>
  Route(std::string for_method, std::string for_path, Function function)
      : method(std::move(for_method)), path(std::move(for_path)) {
    if constexpr (std::is_invocable_v<Function, std::shared_ptr<Exchange>>) {
      handler = [function](std::shared_ptr<Exchange> exchange, const PathParameters&) {
        function(std::move(exchange));
      };
    } else {
      handler = std::move(function);
    }
  }

  std::string method;  // "GET" answers HEAD, too.
  std::string path;    // "{name}" stands for any segment that is not empty.
  RouteHandler handler;
};

// Thread-safe.
class Router {
 public:
  explicit Router(std::vector<Route> routes, RenderRefusal refusal = render_refusal)
      : routes_(std::move(routes)), refusal_(std::move(refusal)) {}

  // Calls the handler of the request's path. A path of the table with another method is answered
  // with 405 and Allow, or with 204 and Allow for OPTIONS; any other path with 404. Slashes at the
  // end and doubled slashes are ignored; /v1 in front of a path may be missing, or be there twice.
  void operator()(std::shared_ptr<Exchange> exchange) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::string others_like(std::string_view path) const;

  std::vector<Route> routes_;
  RenderRefusal refusal_;
};

}  // namespace lockstep::http
