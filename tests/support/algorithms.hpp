// Paths by name, for tests that force each of them.
#pragma once

#include <cstdint>
#include <vector>

#include <gradkern/options.hpp>
#include <gradkern/status.hpp>

namespace gradkern_test {

/// `automatic`, and every row of every operator's table.
inline const std::vector<gradkern::algorithm> all_algorithms = [] {
    std::vector<gradkern::algorithm> all;
    for (int i = 0; i <= UINT8_MAX; ++i)
        if (const auto a = static_cast<gradkern::algorithm>(i); gradkern::name_of(a) != "unknown") all.push_back(a);
    return all;
}();

/// Whether a call or a plan was refused because the operator has no such path, or because it does not fit the problem.
[[nodiscard]] inline bool refuses_algorithm(const gradkern::status& s) {
    return s.code() == gradkern::errc::unsupported && s.error().argument == "algorithm";
}

}  // namespace gradkern_test
