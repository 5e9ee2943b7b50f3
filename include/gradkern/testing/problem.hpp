// What a result is the answer to: an operator with its attributes and options, and the tensors that it reads.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/dynamic_view.hpp>
#include <gradkern/options.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// The operators, under their own names.
enum class operation : std::uint8_t {
    avg_pool,                         ///< src -> dst
    avg_pool_backward,                ///< diff_dst -> diff_src
    lp_pool,                          ///< src -> dst
    lp_pool_backward,                 ///< src, dst, diff_dst -> diff_src
    max_pool,                         ///< src -> dst (and indices)
    max_pool_backward,                ///< src, diff_dst -> diff_src
    max_pool_backward_from_indices,   ///< diff_dst, indices -> diff_src
    convolution,                      ///< src, weights, bias (optional) -> dst
    convolution_backward_data,        ///< diff_dst, weights -> diff_src
    convolution_backward_weights,     ///< src, diff_dst -> diff_weights
    conv_transpose,                   ///< src, weights, bias (optional) -> dst
    conv_transpose_backward_data,     ///< diff_dst, weights -> diff_src
    conv_transpose_backward_weights,  ///< src, diff_dst -> diff_weights
    bias_backward                     ///< diff_dst -> diff_bias
};

/// The name of the operator's function; "unknown" for a number that names no enumerator.
[[nodiscard]] constexpr std::string_view name_of(operation op) noexcept {
    constexpr std::array<std::string_view, 14> names{"avg_pool",
                                                     "avg_pool_backward",
                                                     "lp_pool",
                                                     "lp_pool_backward",
                                                     "max_pool",
                                                     "max_pool_backward",
                                                     "max_pool_backward_from_indices",
                                                     "convolution",
                                                     "convolution_backward_data",
                                                     "convolution_backward_weights",
                                                     "conv_transpose",
                                                     "conv_transpose_backward_data",
                                                     "conv_transpose_backward_weights",
                                                     "bias_backward"};
    const auto i = static_cast<std::size_t>(op);
    return i < names.size() ? names[i] : "unknown";
}

/// An operator with the attributes of its family and the options that change its result (`output` and `precision`).
///
///     const test::problem gradient{test::operation::convolution_backward_data, layer};
class problem {
public:
    /// avg_pool or avg_pool_backward.
    constexpr problem(operation op, const avg_pool_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::avg_pool), avg_pool_(a) {}
    /// lp_pool or lp_pool_backward.
    constexpr problem(operation op, const lp_pool_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::lp_pool), lp_pool_(a) {}
    /// max_pool or max_pool_backward.
    constexpr problem(operation op, const max_pool_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::max_pool), max_pool_(a) {}
    /// max_pool_backward_from_indices.
    constexpr problem(operation op, const max_pool_indices_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::max_pool_indices), max_pool_indices_(a) {}
    /// convolution or one of its gradients.
    constexpr problem(operation op, const convolution_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::convolution), convolution_(a) {}
    /// conv_transpose or one of its gradients.
    constexpr problem(operation op, const conv_transpose_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::conv_transpose), conv_transpose_(a) {}
    /// bias_backward: also for the diff_bias of a weight gradient.
    constexpr problem(operation op, const bias_attributes& a, const plan_options& options = {}) noexcept
        : op_(op), options_(options), family_(family::bias), bias_(a) {}

    /// The operator.
    [[nodiscard]] constexpr operation op() const noexcept { return op_; }
    /// Its options.
    [[nodiscard]] constexpr const plan_options& options() const noexcept { return options_; }
    /// Whether the attributes are those of the operator.
    [[nodiscard]] constexpr bool has_own_attributes() const noexcept {
        switch (op_) {
            case operation::avg_pool:
            case operation::avg_pool_backward: return family_ == family::avg_pool;
            case operation::lp_pool:
            case operation::lp_pool_backward: return family_ == family::lp_pool;
            case operation::max_pool:
            case operation::max_pool_backward: return family_ == family::max_pool;
            case operation::max_pool_backward_from_indices: return family_ == family::max_pool_indices;
            case operation::convolution:
            case operation::convolution_backward_data:
            case operation::convolution_backward_weights: return family_ == family::convolution;
            case operation::conv_transpose:
            case operation::conv_transpose_backward_data:
            case operation::conv_transpose_backward_weights: return family_ == family::conv_transpose;
            case operation::bias_backward: return family_ == family::bias;
        }
        return false;
    }

    /// The attributes if they are of this family, or defaults.
    [[nodiscard]] constexpr const avg_pool_attributes& avg_pool() const noexcept { return avg_pool_; }
    /// As above.
    [[nodiscard]] constexpr const lp_pool_attributes& lp_pool() const noexcept { return lp_pool_; }
    /// As above.
    [[nodiscard]] constexpr const max_pool_attributes& max_pool() const noexcept { return max_pool_; }
    /// As above.
    [[nodiscard]] constexpr const max_pool_indices_attributes& max_pool_indices() const noexcept {
        return max_pool_indices_;
    }
    /// As above.
    [[nodiscard]] constexpr const convolution_attributes& convolution() const noexcept { return convolution_; }
    /// As above.
    [[nodiscard]] constexpr const conv_transpose_attributes& conv_transpose() const noexcept { return conv_transpose_; }
    /// As above.
    [[nodiscard]] constexpr const bias_attributes& bias() const noexcept { return bias_; }

private:
    enum class family : std::uint8_t {
        avg_pool,
        lp_pool,
        max_pool,
        max_pool_indices,
        convolution,
        conv_transpose,
        bias
    };

    operation op_;
    plan_options options_;
    family family_;
    // One of these is in use. (No std::variant: objects compiled for different instruction sets would share its functions.)
    avg_pool_attributes avg_pool_{};
    lp_pool_attributes lp_pool_{};
    max_pool_attributes max_pool_{};
    max_pool_indices_attributes max_pool_indices_{};
    convolution_attributes convolution_{};
    conv_transpose_attributes conv_transpose_{};
    bias_attributes bias_{};
};

/// Indices of a max pool: a tensor of int64 or int32 numbers, with any strides.
struct index_view {
    const void* data = nullptr;  ///< element with all indices 0
    tensor_layout layout{};      ///< shape and strides in elements
    bool is_int32 = false;       ///< what an element is

    constexpr index_view() noexcept = default;
    /// A view of the indices at p.
    template <class Index>
    requires(std::same_as<Index, std::int64_t> ||
             std::same_as<Index, std::int32_t>) constexpr index_view(const Index* p, const tensor_layout& l) noexcept
        : data(p), layout(l), is_int32(sizeof(Index) == 4) {}
    /// From a view whose type the compiler knows.
    template <class Index>
    requires(std::same_as<std::remove_const_t<Index>, std::int64_t> ||
             std::same_as<std::remove_const_t<Index>, std::int32_t>)
        // NOLINTNEXTLINE(google-explicit-constructor): nothing is lost
        constexpr index_view(const tensor_view<Index>& view) noexcept
        : index_view(view.data, view.layout) {}

    /// Bytes of an element.
    [[nodiscard]] constexpr std::size_t element_bytes() const noexcept { return is_int32 ? 4 : 8; }
    /// The index `offset` elements behind the first.
    [[nodiscard]] std::int64_t operator[](std::int64_t offset) const noexcept {
        return is_int32 ? static_cast<const std::int32_t*>(data)[offset]
                        : static_cast<const std::int64_t*>(data)[offset];
    }
};

/// The tensors that an operator reads; those that it does not read stay empty. Types may be f32, f16, bf16 or f64, and may
/// differ. Strides are arbitrary.
struct inputs {
    const_dynamic_view src{};       ///< of forward operators, weight gradients, max_pool_backward and lp_pool_backward
    const_dynamic_view weights{};   ///< of convolutions and their data gradients
    const_dynamic_view bias{};      ///< optional, of convolution and conv_transpose
    const_dynamic_view dst{};       ///< of lp_pool_backward
    const_dynamic_view diff_dst{};  ///< of all gradients
    index_view indices{};           ///< of max_pool_backward_from_indices
    const_dynamic_view previous{};  ///< the result's values before the call, if it accumulates
};

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
