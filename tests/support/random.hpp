// Seeded random numbers for tests: the same on every platform, and reproducible from the seed that a failure prints.
//
//     gradkern_test::random_source random("avg_pool.shapes");
//     for (int i = 0; i < 1000; ++i) {
//         GRADKERN_TRACE_SEED(random);           // a failure below prints how to repeat this case
//         const auto width = random.integer(1, 9);
//         ...
//         random.next_case();
//     }
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace gradkern_test {

/// One step of splitmix64: a bijective scrambling of 64 bits.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/// The seed of the whole program: the environment's GRADKERN_TEST_SEED, else a fixed one.
[[nodiscard]] inline std::uint64_t program_seed() {
    const char* text = std::getenv("GRADKERN_TEST_SEED");
    return text == nullptr || *text == '\0' ? 20260801U : std::strtoull(text, nullptr, 0);
}

/// A stream of random numbers, divided into cases. Each case starts from its own state, so it can be repeated alone.
class random_source {
public:
    /// A separate stream for each name, derived from the program's seed.
    explicit random_source(std::string_view name) : name_(name), seed_(program_seed()) {
        std::uint64_t hash = 0xcbf29ce484222325U;
        for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
        stream_ = hash;
        start();
    }

    /// Moves on to the next case.
    void next_case() {
        ++case_;
        start();
    }
    /// Number of the current case.
    [[nodiscard]] std::uint64_t case_number() const noexcept { return case_; }
    /// The text to print with a failure.
    [[nodiscard]] std::string description() const {
        return "random stream \"" + name_ + "\", case " + std::to_string(case_) +
               ", repeat with GRADKERN_TEST_SEED=" + std::to_string(seed_);
    }

    /// 64 random bits.
    [[nodiscard]] std::uint64_t bits() noexcept { return scramble(state_++); }
    /// An integer in [low, high].
    [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) noexcept {
        const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
        const std::uint64_t b = bits();
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (range == 0 ? b : b % range));
    }
    /// True with the probability numerator / denominator.
    [[nodiscard]] bool chance(std::int64_t numerator, std::int64_t denominator) noexcept {
        return integer(1, denominator) <= numerator;
    }
    /// A float in [low, high), a multiple of (high - low) / 2^24.
    [[nodiscard]] float real(float low, float high) noexcept {
        const auto unit = static_cast<float>(bits() >> 40) * 0x1p-24F;
        return low + (high - low) * unit;
    }
    /// One of the values.
    template <class T>
    [[nodiscard]] T pick(std::initializer_list<T> values) noexcept {
        return values.begin()[integer(0, static_cast<std::int64_t>(values.size()) - 1)];
    }
    /// Shuffles the elements.
    template <class Container>
    void shuffle(Container& c) noexcept {
        for (std::size_t i = c.size(); i > 1; --i)
            std::swap(c[i - 1], c[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(i) - 1))]);
    }

private:
    void start() noexcept { state_ = scramble(scramble(seed_ ^ stream_) + case_) << 16; }

    std::string name_;
    std::uint64_t seed_ = 0;
    std::uint64_t stream_ = 0;
    std::uint64_t case_ = 0;
    std::uint64_t state_ = 0;
};

}  // namespace gradkern_test

/// Failures in the enclosing scope print how to repeat the current case.
#define GRADKERN_TRACE_SEED(source) SCOPED_TRACE((source).description())
