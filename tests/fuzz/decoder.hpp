// From the bytes of a fuzzer to calls of operators, and what must hold for every call.
//
// Most decoded calls are legal, with a wrong number here and there: bytes that are not there count as 0, and 0 means
// the usual choice. Tensors have exactly the memory that their layout says, between guard pages. A layout that nobody
// could have memory for comes with none at all; a call that would take long is planned and not run.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_fuzz {

namespace gk = gradkern;
using gradkern_test::guarded_bytes;
using gradkern_test::test_tensor;
using gradkern_test::touching;

/// Ends the program where a property does not hold: the fuzzer then keeps the input.
inline void require(bool holds, const char* property, const std::string& details = {}) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n%s\n", property, details.c_str());
    std::abort();
}

inline constexpr std::int64_t most_elements = 64 * 1024;         ///< of a tensor with memory, gaps included
inline constexpr std::size_t most_workspace = 16 * 1024 * 1024;  ///< bytes

/// Numbers and choices out of bytes.
class decoder {
public:
    decoder(const std::uint8_t* data, std::size_t size) noexcept : next_(data), end_(data + size) {}

    [[nodiscard]] std::uint8_t byte() noexcept { return next_ == end_ ? std::uint8_t{0} : *next_++; }
    /// In [low, high], low + 255 at most.
    [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) noexcept {
        return low + byte() % (high - low + 1);
    }
    /// Once in `n`, and not where the bytes have ended.
    [[nodiscard]] bool once_in(std::int64_t n) noexcept { return integer(1, n) == n; }
    template <class T>
    [[nodiscard]] T pick(std::initializer_list<T> values) noexcept {
        return values.begin()[byte() % values.size()];
    }
    [[nodiscard]] std::uint64_t word() noexcept {
        std::uint64_t w = 0;
        for (int i = 0; i < 8; ++i) w = w << 8 | byte();
        return w;
    }
    /// Any number, most often one that stands at some border.
    [[nodiscard]] std::int64_t anything() noexcept {
        const int shift = static_cast<int>(integer(0, 62));
        switch (integer(0, 7)) {
            case 0: return 0;
            case 1: return -1;
            case 2: return integer(-4, 9);
            case 3: return (std::int64_t{1} << shift) + integer(-2, 2);
            case 4: return -(std::int64_t{1} << shift) + integer(-1, 2);
            case 5: return std::numeric_limits<std::int64_t>::max() - integer(0, 3);
            case 6: return std::numeric_limits<std::int64_t>::min() + integer(0, 3);
            default: return static_cast<std::int64_t>(word());
        }
    }
    /// An enumerator; now and then one that does not exist.
    template <class E>
    [[nodiscard]] E word_up_to(E last) noexcept {
        if (once_in(64)) return static_cast<E>(byte());
        return static_cast<E>(integer(0, static_cast<std::int64_t>(last)));
    }
    /// Now and then, one entry becomes any number, or there is one entry more or less.
    void spoil(gk::extents& e, std::int64_t one_in) noexcept {
        if (!once_in(one_in)) return;
        const auto kind = integer(0, 7);
        if (kind == 6) return e.push_back(anything());
        if (kind == 7) {
            gk::extents shorter;
            for (std::size_t i = 0; i + 1 < e.values().size(); ++i) shorter.push_back(e[i]);
            e = shorter;
            return;
        }
        if (!e.values().empty()) e[byte() % e.values().size()] = anything();
    }
    /// Now and then, the numbers of one axis become so large that only just some windows fit into 63 bits.
    void stretch(const gk::extents& space, const gk::extents& kernel, gk::extents& strides, gk::extents& dilations,
                 gk::extents& pads_begin, gk::extents& pads_end, std::int64_t one_in) noexcept {
        if (!once_in(one_in)) return;
        const std::size_t i = byte() % space.rank();
        const auto large = [&] {
            constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
            const auto kind = integer(0, 3);
            return kind == 0   ? std::int64_t{1} << integer(40, 62)
                   : kind == 1 ? most / integer(1, 9) - integer(0, 7)
                               : most - integer(0, 31);
        };
        if (dilations.empty()) dilations = gk::extents::filled(space.rank(), 1);
        if (kernel[i] > 1) dilations[i] = large() / (kernel[i] - 1);
        if (once_in(3)) strides[i] = large();
        const gk::shape::checked window = gk::shape::checked(kernel[i] - 1) * dilations[i] + 1;
        gk::shape::checked padding = window - space[i] + gk::shape::checked(integer(0, 4)) * strides[i];
        if (!padding.ok()) padding = window - space[i];
        if (!padding.ok() || padding.value() < 0) return;
        pads_begin[i] = pick({std::int64_t{0}, padding.value() / 2, padding.value(), std::int64_t{1} << 62});
        pads_begin[i] = std::min(pads_begin[i], padding.value());
        pads_end[i] = padding.value() - pads_begin[i];
    }
    [[nodiscard]] touching side() noexcept { return once_in(2) ? touching::begin : touching::end; }

    /// Strides for a shape: none (dense), axes in any order with gaps, negative directions and, for inputs, steps of 0;
    /// now and then anything.
    [[nodiscard]] gk::tensor_layout layout(const gk::extents& shape, bool is_output) noexcept {
        gk::tensor_layout l(shape);
        const auto kind = integer(0, 15);
        if (kind < 9 || shape.rank() > gk::extents::capacity) return l;
        std::array<std::size_t, gk::extents::capacity> order{};
        for (std::size_t i = 0; i < shape.rank(); ++i) order[i] = i;
        for (std::size_t i = shape.rank(); i > 1; --i) std::swap(order[i - 1], order[byte() % i]);
        l.strides = shape;
        gk::shape::checked step(integer(1, 3));
        for (std::size_t i = 0; i < shape.rank(); ++i) {
            const std::size_t axis = order[i];
            const auto how = integer(0, 7);
            l.strides[axis] = how == 7 ? -step.value() : !is_output && how == 6 ? 0 : step.value();
            step = step * std::max<std::int64_t>(shape[axis], 1) + (how == 5 ? 2 : 0);
            if (!step.ok()) step = 1;
        }
        if (kind == 15) spoil(l.strides, 3);
        return l;
    }

private:
    const std::uint8_t* next_;
    const std::uint8_t* end_;
};

/// Elements of a shape, or -1 where there are too many (as if no size were 0) or the shape is none.
[[nodiscard]] inline std::int64_t count_of(const gk::extents& shape) {
    if (shape.empty() || shape.rank() > gk::extents::capacity) return -1;
    gk::shape::checked count(1);
    bool none = false;
    for (const std::int64_t e : shape.values()) {
        if (e < 0) return -1;
        none = none || e == 0;
        count *= std::max<std::int64_t>(e, 1);
    }
    if (!count.ok() || count.value() > most_elements) return -1;
    return none ? 0 : count.value();
}

/// Whether a tensor of this layout gets memory.
[[nodiscard]] inline bool has_memory(const gk::tensor_layout& l) {
    const std::int64_t count = count_of(l.shape);
    if (count < 0 || (!l.is_dense() && l.strides.rank() != l.shape.rank())) return false;
    if (count == 0 || l.is_dense()) return true;
    gk::shape::checked reach(1);
    for (std::size_t i = 0; i < l.shape.rank(); ++i) {
        if (l.strides[i] == std::numeric_limits<std::int64_t>::min()) return false;
        reach += (gk::shape::checked(l.shape[i]) - 1) * std::abs(l.strides[i]);
    }
    return reach.ok() && reach.value() <= most_elements;
}

/// What the elements of a tensor are. Sums of integers are exact, sums of values have rounding errors, and `special`
/// mixes NaN and infinities into integers.
enum class contents : std::uint8_t { integers, values, special };

/// A tensor in memory of its own, or one without memory where its layout gets none.
template <class T>
class fuzz_tensor {
public:
    fuzz_tensor(const gk::tensor_layout& layout, touching side)
        : layout_(layout),
          has_memory_(gradkern_fuzz::has_memory(layout)),
          memory_(has_memory_ ? layout.shape : gk::extents{0}, has_memory_ ? layout.strides : gk::extents{}, side) {}

    [[nodiscard]] bool has_memory() const noexcept { return has_memory_; }
    [[nodiscard]] bool empty() const noexcept { return memory_.count() == 0; }
    [[nodiscard]] const gk::tensor_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] const test_tensor<T>& memory() const noexcept { return memory_; }
    [[nodiscard]] T* data() const noexcept { return memory_.data(); }
    [[nodiscard]] gk::tensor_view<T> view() const noexcept { return {data(), layout_}; }
    [[nodiscard]] gk::tensor_view<const T> const_view() const noexcept { return {data(), layout_}; }

    /// Fills the elements from a seed.
    void fill(std::uint64_t seed, contents what) const {
        memory_.fill([&](std::int64_t i) {
            const std::uint64_t bits = gradkern_test::scramble(seed + static_cast<std::uint64_t>(i));
            if (what == contents::values) return static_cast<float>(bits >> 40) * 0x1p-22F - 2.0F;
            if (what == contents::special && bits % 16 == 0) {
                constexpr float infinity = std::numeric_limits<float>::infinity();
                constexpr std::array<float, 4> specials{std::numeric_limits<float>::quiet_NaN(), infinity, -infinity,
                                                        -0.0F};
                return specials[bits / 16 % specials.size()];
            }
            return static_cast<float>(bits % 7) - 3.0F;
        });
    }

private:
    gk::tensor_layout layout_;
    bool has_memory_;
    test_tensor<T> memory_;
};

/// A tensor that is written: its state before calls, and what became of it.
class output {
public:
    output() = default;
    output(const output&) = delete;
    output& operator=(const output&) = delete;
    virtual ~output() = default;
    /// Poison everywhere; in the elements the previous values where a call accumulates.
    virtual void prepare() = 0;
    /// All bytes, gaps included.
    [[nodiscard]] virtual std::vector<unsigned char> bytes() const = 0;
    /// The elements, every NaN as the same one.
    [[nodiscard]] virtual std::vector<unsigned char> result() const = 0;
    /// Whether nothing but elements was written.
    [[nodiscard]] virtual bool intact() const = 0;
};

template <class T>
class output_tensor : public output {
public:
    output_tensor(const gk::tensor_layout& layout, touching side, bool accumulate = false, std::uint64_t seed = 0)
        : layout_(layout),
          has_memory_(gradkern_fuzz::has_memory(layout)),
          memory_(has_memory_ ? layout.shape : gk::extents{0}, has_memory_ ? layout.strides : gk::extents{}, side),
          accumulate_(accumulate),
          seed_(seed) {}

    [[nodiscard]] bool has_memory() const noexcept { return has_memory_; }
    [[nodiscard]] bool empty() const noexcept { return memory_.count() == 0; }
    [[nodiscard]] const gk::tensor_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] const test_tensor<T>& memory() const noexcept { return memory_; }
    [[nodiscard]] T* data() const noexcept { return memory_.data(); }
    /// The value of an element before an accumulating call.
    [[nodiscard]] float previous(std::int64_t i) const noexcept {
        return static_cast<float>(gradkern_test::scramble(seed_ ^ static_cast<std::uint64_t>(i)) % 7) - 3.0F;
    }

    void prepare() override {
        memory_.poison();
        if constexpr (gk::element<T>) {
            if (accumulate_) memory_.fill([&](std::int64_t i) { return previous(i); });
        }
    }
    [[nodiscard]] std::vector<unsigned char> bytes() const override { return memory_.snapshot(); }
    [[nodiscard]] std::vector<unsigned char> result() const override {
        std::vector<unsigned char> elements(static_cast<std::size_t>(memory_.count()) * sizeof(T));
        for (std::int64_t i = 0; i < memory_.count(); ++i) {
            unsigned char* at = elements.data() + static_cast<std::size_t>(i) * sizeof(T);
            std::memcpy(at, &memory_[i], sizeof(T));
            if constexpr (gk::element<T>) {
                const auto v = memory_.value(i);
                if (v != v) std::memset(at, 0xff, sizeof(T));
            }
        }
        return elements;
    }
    [[nodiscard]] bool intact() const override { return static_cast<bool>(memory_.surroundings_intact()); }

private:
    gk::tensor_layout layout_;
    bool has_memory_;
    test_tensor<T> memory_;
    bool accumulate_;
    std::uint64_t seed_;
};

/// A planned call on certain tensors.
struct planned_call {
    gk::status status{};
    std::function<std::size_t(std::ptrdiff_t)> workspace_bytes{};
    std::function<gk::status(std::span<std::byte>, gk::executor_ref)> run{};
};

/// From a plan and how it is run.
template <class Plan, class Run>
[[nodiscard]] planned_call call_of(const Plan& plan, const Run& run) {
    if (!plan) return {plan.error(), {}, {}};
    return {{},
            [p = *plan](std::ptrdiff_t workers) { return p.workspace_bytes(workers); },
            [p = *plan, run](std::span<std::byte> ws, gk::executor_ref e) { return run(p, ws, e); }};
}

/// The tensors of a call.
struct call_memory {
    std::vector<output*> outputs{};
    bool all_there = true;     ///< every tensor has its memory
    bool bad_pointer = false;  ///< a tensor with elements came without memory, or an input lies on an output
};

inline void prepare(const call_memory& m) {
    for (output* o : m.outputs) o->prepare();
}
[[nodiscard]] inline std::vector<std::vector<unsigned char>> bytes_of(const call_memory& m) {
    std::vector<std::vector<unsigned char>> all;
    for (const output* o : m.outputs) all.push_back(o->bytes());
    return all;
}
[[nodiscard]] inline std::vector<std::vector<unsigned char>> results_of(const call_memory& m) {
    std::vector<std::vector<unsigned char>> all;
    for (const output* o : m.outputs) all.push_back(o->result());
    return all;
}
inline void require_intact(const call_memory& m, const std::string& details) {
    for (const output* o : m.outputs) require(o->intact(), "nothing but elements is written", details);
}

/// Runs a call with workspaces and workers of the decoder's choice, `other` with another algorithm, and requires the same
/// results of all of them; errors must leave every byte. Returns whether there are results: the outputs hold them.
inline bool exercise(decoder& d, const planned_call& call, const planned_call& other, const call_memory& memory,
                     bool too_much_work, const std::string& details) {
    prepare(memory);
    const auto before = bytes_of(memory);
    require(call.status.ok() == other.status.ok(), "algorithms agree on errors", details);
    if (!call.status) {
        require(!call.status.error().op.empty() && !call.status.error().argument.empty(), "errors name what is wrong",
                details);
        require(bytes_of(memory) == before, "planning writes nothing", details);
        return false;
    }
    if (!memory.all_there || too_much_work) return false;
    const auto workers = static_cast<std::ptrdiff_t>(d.integer(1, 9));
    const std::size_t needed = call.workspace_bytes(1);
    if (std::max({call.workspace_bytes(workers), other.workspace_bytes(workers), needed}) > most_workspace)
        return false;

    gradkern_test::shuffling_executor executor(workers);
    const auto run = [&](const planned_call& c, std::size_t bytes, gk::executor_ref e) {
        prepare(memory);
        const guarded_bytes workspace(bytes, d.side(), static_cast<std::size_t>(d.integer(0, 70)));
        const gk::status s = c.run({workspace.data(), bytes}, e);
        require(static_cast<bool>(workspace.zones_intact()), "nothing is written next to a workspace", details);
        return s;
    };
    if (needed != 0 && d.once_in(8)) {
        const std::size_t bytes = d.once_in(2) ? 0 : needed - 1;
        const gk::status s = run(call, bytes, executor);
        require(s.code() == (memory.bad_pointer ? s.code() : gk::errc::workspace_too_small) && !s.ok(),
                "a small workspace is refused", details);
        require(bytes_of(memory) == before, "a refused call writes nothing", details);
    }
    const gk::status first = run(call, needed, {});
    if (!first) {
        require(bytes_of(memory) == before, "a refused call writes nothing", details);
        require(memory.bad_pointer || first.code() == gk::errc::index_out_of_range, "what was planned runs",
                details + gk::to_string(first));
        return false;
    }
    require(!memory.bad_pointer, "null pointers and overlaps are refused", details);
    require_intact(memory, details);
    const auto results = results_of(memory);
    const std::size_t more = call.workspace_bytes(workers);
    const auto between = [&](std::size_t low, std::size_t high) {
        return high <= low ? low : low + static_cast<std::size_t>(d.word() % (high - low + 1));
    };
    require(run(call, between(needed, more + 100), executor).ok(), "what was planned runs on many workers", details);
    require_intact(memory, details);
    require(results_of(memory) == results, "workers and workspaces do not change bits", details);
    require(run(other, other.workspace_bytes(workers), executor).ok(), "what was planned runs by another algorithm",
            details);
    require_intact(memory, details);
    require(results_of(memory) == results, "algorithms do not change bits", details);
    return true;
}

/// For messages.
[[nodiscard]] inline std::string text(const char* name, const gk::extents& e) {
    std::string s = std::string(" ") + name + "(";
    for (const std::int64_t v : e.values()) s += std::to_string(v) + ",";
    return s + ")";
}
[[nodiscard]] inline std::string text(const char* name, const gk::tensor_layout& l) {
    return text(name, l.shape) + (l.is_dense() ? std::string() : text("strides", l.strides)) + "\n";
}

/// Calls f with an element of the type that the input chooses: f32 half of the time, else f16 or bf16.
template <class F>
void with_element_type(decoder& d, const F& f) {
    switch (d.integer(0, 3)) {
        case 0:
        case 1: return f(float{});
        case 2: return f(gk::float16{});
        default: return f(gk::bfloat16{});
    }
}

}  // namespace gradkern_fuzz
