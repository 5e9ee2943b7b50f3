// How the fuzzer changes an input: often by new random bytes altogether. The decoder makes a call of any bytes, so that
// these reach the numbers at its end long before single changes would.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "support/random.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
    constexpr std::size_t longest = 192;
    const std::uint64_t choice = gradkern_test::scramble(seed);
    if (choice % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
    // Either everything, or all bytes from one place on.
    const std::size_t from = choice % 4 == 1 || size == 0 ? 0 : static_cast<std::size_t>((choice >> 8) % size);
    const std::size_t all = std::max(std::min(longest, max_size), from);
    for (std::size_t i = from; i < all; ++i) data[i] = static_cast<std::uint8_t>(gradkern_test::scramble(choice + i));
    return all;
}
