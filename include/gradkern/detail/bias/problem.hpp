// The problem of a bias gradient: checked facts.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct bias_problem {
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    std::int64_t planes = 1;
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    shape::canonical_strides in{};
    std::int64_t out_step = 1;
    bool is_f32 = true;
    bool accumulate = false;

    constexpr bias_problem() noexcept = default;
    constexpr bias_problem(const shape::bias_problem& p, const shape::canonical_strides& diff_dst,
                           std::int64_t diff_bias, bool f32, output_mode output) noexcept
        : batch(p.batch),
          channels(p.channels),
          planes(p.positions[0]),
          rows(p.positions[1]),
          columns(p.positions[2]),
          in(diff_dst),
          out_step(diff_bias),
          is_f32(f32),
          accumulate(output == output_mode::accumulate) {}
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
