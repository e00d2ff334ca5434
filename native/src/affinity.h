// Pins this process to CPU cores. Linux only.
#pragma once

#include <cstdint>
#include <vector>

namespace lockgate {

/** All threads, and those that they start later. Throws Failure invalid_argument for a core that is not there. */
void set_cpu_affinity(const std::vector<int32_t> & cores);

}  // namespace lockgate
