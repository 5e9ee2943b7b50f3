// Errors as values: `error`, `status` and `result<T>`. Nothing here allocates, throws or prints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/members.hpp>

GRADKERN_NAMESPACE_BEGIN

/// What kind of mistake was found. `ok` is the absence of one.
enum class errc : std::uint8_t {
    ok,                  ///< no error
    invalid_argument,    ///< an attribute value, or tensors that may not share memory
    invalid_shape,       ///< inconsistent shapes
    missing_shape,       ///< a required shape was given neither as input nor as attribute
    unsupported,         ///< a rank, type or mode outside the library
    overflow,            ///< a size that does not fit a signed 64-bit integer
    index_out_of_range,  ///< an index value outside the tensor it points into
    null_pointer,        ///< a tensor with elements has no memory
    workspace_too_small  ///< fewer workspace bytes than the plan needs
};

/// The name of an error class as it is spelled in the code.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view to_string(errc code) noexcept {
    constexpr std::array<std::string_view, 9> names{
        "ok",       "invalid_argument",   "invalid_shape", "missing_shape",      "unsupported",
        "overflow", "index_out_of_range", "null_pointer",  "workspace_too_small"};
    const auto i = static_cast<std::size_t>(code);
    return i < names.size() ? names[i] : std::string_view{"unknown"};
}

/// Writes text and numbers into a span of characters, and counts the characters of the whole text.
class text_writer {
public:
    /// Writes into `text` until it is full.
    GRADKERN_PER_ISA constexpr explicit text_writer(std::span<char> text) noexcept : text_(text) {}
    /// Appends characters.
    GRADKERN_PER_ISA constexpr text_writer& operator<<(std::string_view s) noexcept {
        for (const char c : s) {
            if (size_ < text_.size()) text_[size_] = c;
            ++size_;
        }
        return *this;
    }
    /// Appends a decimal number.
    GRADKERN_PER_ISA constexpr text_writer& operator<<(std::int64_t v) noexcept {
        std::array<char, 20> digits{};
        std::size_t k = digits.size();
        const bool negative = v < 0;
        auto u = negative ? 0U - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
        do {
            digits[--k] = static_cast<char>('0' + u % 10);
            u /= 10;
        } while (u != 0);
        if (negative) *this << "-";
        return *this << std::string_view(digits.data() + k, digits.size() - k);
    }
    /// Characters appended so far, including those that did not fit.
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::size_t size() const noexcept { return size_; }

private:
    std::span<char> text_;
    std::size_t size_ = 0;
};

/// The relation between `error::got` and `error::expected` that was violated.
enum class expectation : std::uint8_t {
    equal,        ///< got == expected
    not_equal,    ///< got != expected
    at_least,     ///< got >= expected
    at_most,      ///< got <= expected
    below,        ///< got < expected
    multiple_of,  ///< got is a multiple of expected
    none          ///< nothing is compared: the numbers are not shown
};

/// What `error::got` and `error::expected` count.
enum class quantity : std::uint8_t {
    value,    ///< the value of an attribute, a size, or an index
    entries,  ///< number of entries of a list
    rank,     ///< number of axes of a tensor
    strides,  ///< number of strides of a tensor
    bytes,    ///< bytes of memory
    type,     ///< element types, as numbers of data_type
    word      ///< the number of an enumerator
};

/// What an error says besides its numbers. The strings are literals of the library.
struct remark {
    quantity what = quantity::value;                             ///< see error::what
    std::string_view other{members::no_text, members::no_text};  ///< see error::other
    std::string_view why{members::no_text, members::no_text};    ///< see error::why
};

/// One mistake: which operator found it, in which argument and axis, and the actual and the expected number.
/// The strings are literals of the library (or of the front end that reports); they never dangle.
struct error {
    errc code = errc::ok;                                           ///< class of the mistake
    std::string_view op{members::no_text, members::no_text};        ///< operator, e.g. "convolution_backward_data"
    std::string_view argument{members::no_text, members::no_text};  ///< tensor or attribute, e.g. "weights", "strides"
    int axis = -1;                              ///< index into the argument's shape or vector, -1 if there is none
    std::int64_t got = 0;                       ///< the offending number
    std::int64_t expected = members::apart(0);  ///< the number it is compared with
    expectation relation = expectation::equal;  ///< how `got` should relate to `expected`
    quantity what = quantity::value;            ///< what the two numbers are
    std::string_view other{members::no_text,
                           members::no_text};  ///< the argument that `expected` comes from, or that is in conflict
    /// A part of a sentence: the broken rule, or the accepted words. Set whenever the numbers do not say it.
    std::string_view why{members::no_text, members::no_text};

    /// Equal if code, operator, argument, axis, numbers and relation are equal. The explanations (`what`, `other`, `why`)
    /// are not compared: so tests can leave them out, and later versions can improve them.
    GRADKERN_PER_ISA friend constexpr bool operator==(const error& a, const error& b) noexcept {
        return a.code == b.code && a.op == b.op && a.argument == b.argument && a.axis == b.axis && a.got == b.got &&
               a.expected == b.expected && a.relation == b.relation;
    }

    /// Writes a one-line message, e.g. "convolution: strides[1]: got 0, expected at least 1 (invalid_argument)",
    /// truncated to the span and not zero-terminated. Returns the length of the whole message, like snprintf; so an empty
    /// span gives the length. The wording may change between versions.
    GRADKERN_PER_ISA constexpr std::size_t format(std::span<char> text) const noexcept {
        text_writer out(text);
        if (code == errc::ok) return (out << "ok").size();
        out << op;
        if (!argument.empty()) out << ": " << argument;
        if (axis >= 0) out << "[" << axis << "]";
        if (relation != expectation::none || (what == quantity::type && !why.empty())) {
            write_numbers(out);
        } else if (what == quantity::word && !why.empty()) {
            out << ": unknown word, expected " << why;
        } else if (!why.empty()) {
            out << ": " << why << (other.empty() ? "" : " ") << other;
        }
        return (out << " (" << to_string(code) << ")").size();
    }

private:
    /// ": got 0 entries, expected 2, to match src: one for each spatial axis"
    GRADKERN_PER_ISA constexpr void write_numbers(text_writer& out) const noexcept {
        // `why` holds the accepted words, instead of a number.
        const bool is_list = !why.empty() && (what == quantity::word || relation == expectation::none);
        out << ": got ";
        write_quantity(out, got);
        out << ", expected ";
        if (is_list) {
            out << why;
        } else if (what == quantity::type) {
            write_type(out, expected);
        } else {
            out << relation_words() << expected;
        }
        if (!other.empty()) out << (what == quantity::type ? ", the type of " : ", to match ") << other;
        if (!is_list && !why.empty()) out << ": " << why;
    }
    /// "2 entries", "rank 3", "f16", "2"
    GRADKERN_PER_ISA constexpr void write_quantity(text_writer& out, std::int64_t number) const noexcept {
        if (what == quantity::type) {
            write_type(out, number);
            return;
        }
        if (what == quantity::rank) out << "rank ";
        out << number;
        if (what == quantity::entries) out << (number == 1 ? " entry" : " entries");
        if (what == quantity::strides) out << (number == 1 ? " stride" : " strides");
        if (what == quantity::bytes) out << (number == 1 ? " byte" : " bytes");
    }
    /// The name of a data_type, in the order of its enumerators.
    GRADKERN_PER_ISA static constexpr void write_type(text_writer& out, std::int64_t number) noexcept {
        switch (number) {
            case 0: out << "f32"; break;
            case 1: out << "f16"; break;
            case 2: out << "bf16"; break;
            case 3: out << "f64"; break;
            default: out << "type " << number; break;
        }
    }
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view relation_words() const noexcept {
        switch (relation) {
            case expectation::not_equal: return "other than ";
            case expectation::at_least: return "at least ";
            case expectation::at_most: return "at most ";
            case expectation::below: return "below ";
            case expectation::multiple_of: return "a multiple of ";
            default: return "";
        }
    }
};

/// Success, or the first error that was found.
class [[nodiscard]] status {
public:
    GRADKERN_PER_ISA constexpr status() noexcept = default;
    /// A failure; an error whose code is `errc::ok` is a success.
    // NOLINTNEXTLINE(google-explicit-constructor): an error is a status
    GRADKERN_PER_ISA constexpr status(const gradkern::error& e) noexcept : error_(e) {}

    /// True on success.
    [[nodiscard]] GRADKERN_PER_ISA constexpr bool ok() const noexcept { return error_.code == errc::ok; }
    /// True on success.
    [[nodiscard]] GRADKERN_PER_ISA constexpr explicit operator bool() const noexcept { return ok(); }
    /// `errc::ok` on success.
    [[nodiscard]] GRADKERN_PER_ISA constexpr errc code() const noexcept { return error_.code; }
    /// The error; its code is `errc::ok` on success.
    [[nodiscard]] GRADKERN_PER_ISA constexpr const gradkern::error& error() const noexcept { return error_; }

private:
    gradkern::error error_{.op = {}, .argument = {}, .expected = 0, .other = {}, .why = {}};
};

/// A value or an error, with the member names of std::expected (which C++20 lacks). T must be default constructible.
template <class T>
class [[nodiscard]] result {
public:
    using value_type = T;                ///< of the value on success
    using error_type = gradkern::error;  ///< of the error on failure

    /// Success with a value.
    // NOLINTNEXTLINE(google-explicit-constructor): `return value;` must work
    GRADKERN_PER_ISA constexpr result(T value) noexcept : value_(std::move(value)) {}
    /// A failure.
    // NOLINTNEXTLINE(google-explicit-constructor): `return error;` must work
    GRADKERN_PER_ISA constexpr result(const gradkern::error& e) noexcept : error_(e) {}

    /// True if it holds a value.
    [[nodiscard]] GRADKERN_PER_ISA constexpr bool has_value() const noexcept { return error_.code == errc::ok; }
    /// True if it holds a value.
    [[nodiscard]] GRADKERN_PER_ISA constexpr explicit operator bool() const noexcept { return has_value(); }
    /// The value; a default constructed T if there is an error.
    [[nodiscard]] GRADKERN_PER_ISA constexpr const T& value() const noexcept { return value_; }
    /// The value; a default constructed T if there is an error.
    [[nodiscard]] GRADKERN_PER_ISA constexpr T& value() noexcept { return value_; }
    /// The value, or `other` if there is an error.
    [[nodiscard]] GRADKERN_PER_ISA constexpr T value_or(T other) const noexcept { return has_value() ? value_ : other; }
    /// The value; a default constructed T if there is an error.
    [[nodiscard]] GRADKERN_PER_ISA constexpr const T& operator*() const noexcept { return value_; }
    /// The value; a default constructed T if there is an error.
    [[nodiscard]] GRADKERN_PER_ISA constexpr const T* operator->() const noexcept { return &value_; }
    /// The error; its code is `errc::ok` if it holds a value.
    [[nodiscard]] GRADKERN_PER_ISA constexpr const gradkern::error& error() const noexcept { return error_; }

private:
    T value_{};
    gradkern::error error_{.op = {}, .argument = {}, .expected = 0, .other = {}, .why = {}};
};

GRADKERN_NAMESPACE_END
