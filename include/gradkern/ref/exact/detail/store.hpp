// Writes exact sums to outputs: rounded, or as they are.
#pragma once

#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/exact/accumulator.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

/// The sum, or the previous value plus the sum, rounded once if the output is not an accumulator.
template <class T>
void store_sum(T* to, const accumulator& sum, output_mode mode) noexcept {
    if constexpr (std::is_same_v<T, accumulator>) {
        if (mode == output_mode::accumulate) {
            *to += sum;
        } else {
            *to = sum;
        }
    } else if (mode == output_mode::accumulate) {
        accumulator total = sum;
        total.add(*to);
        *to = total.rounded<T>();
    } else {
        *to = sum.rounded<T>();
    }
}

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
