// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli, as in iSCSI, RFC 3720), by the processor's instruction if it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// The checksum of `data` appended to bytes whose checksum is `before`; 0: there are no such bytes.
// Thread-safe.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

// The same without special instructions: the specification.
uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace lockstep
