// SPDX-License-Identifier: Apache-2.0
#include "proto/row_domains.h"

#include "operators/schema/schema.h"

namespace lockstep {

std::vector<program::RowDomain> default_row_domains() {
  std::vector<program::RowDomain> domains(2);
  domains[kTokenRows].set_name("tokens");
  domains[kTokenRows].set_of(program::TOKENS);
  domains[kOutputRows].set_name("outputs");
  domains[kOutputRows].set_of(program::OUTPUTS);
  for (program::RowDomain& domain : domains) domain.set_rows_each(1);
  return domains;
}

int64_t rows_in(const program::RowDomain& domain, int64_t tokens, int64_t outputs) {
  return domain.rows_each() * (domain.of() == program::TOKENS ? tokens : outputs);
}

int64_t max_rows(const program::RowDomain& domain, const program::Limits& limits) {
  return rows_in(domain, limits.rows(), limits.outputs());
}

}  // namespace lockstep
