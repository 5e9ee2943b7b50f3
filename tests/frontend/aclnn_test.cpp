// The aclnn front end: every check of phase 1 with its code and its place in the order, the numbers against the
// reference, what cubeMathType rounds, workspaces, and executors that are used up, destroyed, made up or shared.

// Names as the original's headers have them, with other meanings: the front end must not meet them.
extern "C" {
struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;
enum aclFormat { ACL_FORMAT_NCHW = 5 };
enum aclDataType { ACL_FLOAT = 7 };
using aclnnStatus = long;
using aclrtStream = int;
int aclDestroyTensor(const aclTensor* tensor);
int aclDestroyAclOpExecutor(aclOpExecutor* executor);
}

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/frontend/aclnn.hpp>
#include <gradkern/ref/avg_pool.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

thread_local int allocations_until_failure = -1;  // negative: none fails

bool fails_now() noexcept { return allocations_until_failure >= 0 && allocations_until_failure-- == 0; }

}  // namespace

void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
    if (fails_now()) return nullptr;
    try {
        return ::operator new(size);
    } catch (...) {
        return nullptr;
    }
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
    if (fails_now()) return nullptr;
    try {
        return ::operator new[](size);
    } catch (...) {
        return nullptr;
    }
}

namespace gradkern_test {
namespace {

namespace gk = gradkern;
namespace ac = gradkern::aclnn;
namespace tr = gradkern::aclnn::translation;
using ac::ACLNN_ERR_INNER_CREATE_EXECUTOR;
using ac::ACLNN_ERR_PARAM_INVALID;
using ac::ACLNN_ERR_PARAM_NULLPTR;
using ac::ACLNN_SUCCESS;
using gk::extents;
using list = std::vector<std::int64_t>;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

struct destroy {
    void operator()(ac::aclTensor* t) const { EXPECT_EQ(ac::aclDestroyTensor(t), ACLNN_SUCCESS); }
    void operator()(ac::aclIntArray* a) const { EXPECT_EQ(ac::aclDestroyIntArray(a), ACLNN_SUCCESS); }
};
using tensor_object = std::unique_ptr<ac::aclTensor, destroy>;
using list_object = std::unique_ptr<ac::aclIntArray, destroy>;

// The arguments of aclCreateTensor.
struct tensor_words {
    list dims{};
    ac::aclDataType type = ac::ACL_FLOAT;
    ac::aclFormat format = ac::ACL_FORMAT_NCHW;
    list strides{};  // empty: none given
    std::int64_t offset = 0;
    list storage{};
    void* data = nullptr;
    bool is_null = false;

    [[nodiscard]] tensor_object make() const {
        if (is_null) return {};
        return tensor_object(ac::aclCreateTensor(dims.data(), dims.size(), type,
                                                 strides.empty() ? nullptr : strides.data(), offset, format,
                                                 storage.data(), storage.size(), data));
    }
};

struct outcome {
    ac::aclnnStatus code = -1;
    std::uint64_t bytes = 0;
    ac::aclOpExecutor* executor = nullptr;
    tr::check failed = tr::check::none;
};

// The arguments of phase 1. The defaults make a correct call.
struct call_words {
    tensor_words grad_output{{2, 3, 3, 6}};
    tensor_words self{{2, 3, 6, 5}};
    tensor_words grad_input{{2, 3, 6, 5}};
    std::optional<list> kernel = list{3, 2};
    std::optional<list> stride = list{2, 1};
    std::optional<list> padding = list{1, 1};
    bool ceil = false;
    bool include = false;
    std::int64_t divisor = 0;
    std::int8_t cube = 0;
    ac::product profile = ac::product::current;
    bool has_size = true;
    bool has_executor = true;

    void all(const std::function<void(tensor_words&)>& change) {
        for (tensor_words* t : {&grad_output, &self, &grad_input}) change(*t);
    }

    // Makes the objects, plans, and destroys the objects.
    [[nodiscard]] outcome plan() const {
        const tensor_object dy = grad_output.make();
        const tensor_object x = self.make();
        const tensor_object dx = grad_input.make();
        const auto make = [](const std::optional<list>& l) {
            return l ? list_object(ac::aclCreateIntArray(l->data(), l->size())) : list_object();
        };
        const list_object k = make(kernel);
        const list_object s = make(stride);
        const list_object p = make(padding);
        outcome o;
        o.bytes = 0xdead;
        o.executor = reinterpret_cast<ac::aclOpExecutor*>(std::uintptr_t{0xbeef});
        o.failed = tr::first_failure({dy.get(), x.get(), k.get(), s.get(), p.get(), ceil, include, divisor, cube,
                                      dx.get(), has_size && has_executor, profile});
        const auto get = [&](auto... more) {
            return ac::aclnnAvgPool2dBackwardGetWorkspaceSize(
                dy.get(), x.get(), k.get(), s.get(), p.get(), ceil, include, divisor, cube, dx.get(),
                has_size ? &o.bytes : nullptr, has_executor ? &o.executor : nullptr, more...);
        };
        o.code = profile == ac::product::current ? get() : get(profile);
        if (!has_size) o.bytes = 0;
        if (!has_executor) o.executor = nullptr;
        return o;
    }

    [[nodiscard]] gk::avg_pool_attributes attributes() const {
        const auto both = [](const list& l) {
            return l.size() == 1 ? extents{l[0], l[0]} : extents(std::span<const std::int64_t>(l));
        };
        const extents k = both(*kernel);
        return {.kernel = k,
                .strides = stride && !stride->empty() ? both(*stride) : k,
                .pads_begin = both(*padding),
                .pads_end = both(*padding),
                .exclude_pad = !include,
                .rounding_type = ceil ? gk::rounding_type::ceil_torch : gk::rounding_type::floor,
                .divisor_override = divisor == 0 ? std::nullopt : std::optional(divisor),
                .data_format = gk::data_format::ncx};
    }
};

template <class T>
constexpr ac::aclDataType type_of = std::is_same_v<T, float>         ? ac::ACL_FLOAT
                                    : std::is_same_v<T, gk::float16> ? ac::ACL_FLOAT16
                                                                     : ac::ACL_BF16;

list to_list(const extents& e) { return {e.values().begin(), e.values().end()}; }

// A tensor of the test as aclCreateTensor takes it: its storage from the lowest element on.
template <class T>
tensor_words words_of(const test_tensor<T>& t) {
    const extents strides = t.layout().is_dense() ? dense_strides(t.shape()) : t.layout().strides;
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (std::size_t i = 0; i < t.shape().rank(); ++i) (strides[i] < 0 ? low : high) += (t.shape()[i] - 1) * strides[i];
    return {.dims = to_list(t.shape()),
            .type = type_of<T>,
            .format = t.shape().rank() == 3 ? ac::ACL_FORMAT_NCL : ac::ACL_FORMAT_NCHW,
            .strides = t.layout().is_dense() ? list{} : to_list(strides),
            .offset = -low,
            .storage = {high - low + 1},
            .data = t.data() + low};
}

template <class T>
test_tensor<T> tensor_of(const extents& shape, const std::vector<float>& values) {
    test_tensor<T> t(shape);
    t.fill([&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
    return t;
}

template <class T>
std::vector<float> values_of(const test_tensor<T>& t) {
    std::vector<float> v;
    for (std::int64_t i = 0; i < t.count(); ++i) v.push_back(t.value(i));
    return v;
}

// Runs with a workspace of exactly the bytes asked for, at an odd address.
ac::aclnnStatus run(const outcome& o, ac::aclrtStream stream = nullptr) {
    guarded_bytes workspace(static_cast<std::size_t>(o.bytes), touching::begin, 1);
    const auto code =
        ac::aclnnAvgPool2dBackward(o.bytes == 0 ? nullptr : workspace.data(), o.bytes, o.executor, stream);
    EXPECT_TRUE(workspace.zones_intact());
    return code;
}

// Both phases.
ac::aclnnStatus compute(const call_words& c, ac::aclrtStream stream = nullptr) {
    const outcome o = c.plan();
    return o.code == ACLNN_SUCCESS ? run(o, stream) : o.code;
}

// gradOutput as the operator sees it: four axes, rounded.
template <class T>
test_tensor<T> seen(const test_tensor<T>& dy, const std::function<float(float)>& round) {
    extents shape = dy.shape();
    if (shape.rank() == 3) shape = {1, shape[0], shape[1], shape[2]};
    test_tensor<T> t(shape);
    t.fill([&](std::int64_t i) { return round ? round(dy.value(i)) : dy.value(i); });
    return t;
}

// What the reference makes of it, in the shape of `like`.
template <class T>
test_tensor<T> reference(const call_words& c, const test_tensor<T>& dy, const extents& like,
                         const std::function<float(float)>& round = {}) {
    extents shape = like;
    if (shape.rank() == 3) shape = {1, shape[0], shape[1], shape[2]};
    const auto input = seen(dy, round);
    test_tensor<T> four(shape);
    const gk::status s = gk::ref::avg_pool_backward<T>(input.const_view(), c.attributes(), four.view());
    EXPECT_TRUE(s.ok());
    test_tensor<T> result(like);
    for (std::int64_t i = 0; i < result.count(); ++i) result[i] = four[i];
    return result;
}

// --------------------------------------------------------------------------------------------------- checks of phase 1

struct mistake {
    std::string_view name;
    tr::check check;
    std::function<void(call_words&)> make;
};

const std::vector<mistake>& mistakes() {
    using c = call_words;
    using tr::check;
    static const std::vector<mistake> all{
        {"gradOutput null", check::null_pointer, [](c& w) { w.grad_output.is_null = true; }},
        {"self null", check::null_pointer, [](c& w) { w.self.is_null = true; }},
        {"kernelSize null", check::null_pointer, [](c& w) { w.kernel.reset(); }},
        {"padding null", check::null_pointer, [](c& w) { w.padding.reset(); }},
        {"gradInput null", check::null_pointer, [](c& w) { w.grad_input.is_null = true; }},
        {"workspaceSize null", check::null_pointer, [](c& w) { w.has_size = false; }},
        {"executor null", check::null_pointer, [](c& w) { w.has_executor = false; }},
        {"gradOutput f16", check::data_type, [](c& w) { w.grad_output.type = ac::ACL_FLOAT16; }},
        {"self bf16", check::data_type, [](c& w) { w.self.type = ac::ACL_BF16; }},
        {"gradInput f16", check::data_type, [](c& w) { w.grad_input.type = ac::ACL_FLOAT16; }},
        {"all f64", check::data_type, [](c& w) { w.all([](tensor_words& t) { t.type = ac::ACL_DOUBLE; }); }},
        {"all s32", check::data_type, [](c& w) { w.all([](tensor_words& t) { t.type = ac::ACL_INT32; }); }},
        {"all of no type", check::data_type,
         [](c& w) { w.all([](tensor_words& t) { t.type = static_cast<ac::aclDataType>(12345); }); }},
        {"gradOutput NHWC", check::format, [](c& w) { w.grad_output.format = ac::ACL_FORMAT_NHWC; }},
        {"self ND", check::format, [](c& w) { w.self.format = ac::ACL_FORMAT_ND; }},
        {"gradInput NCL with four axes", check::format,
         [](c& w) {
             w.grad_input.dims = {2, 3, 6, 5};
             w.grad_input.format = ac::ACL_FORMAT_NCL;
         }},
        {"gradInput of no format", check::format,
         [](c& w) { w.grad_input.format = static_cast<ac::aclFormat>(int{1} << 30); }},
        {"three axes ND", check::format,
         [](c& w) {
             w.self.dims = {3, 6, 5};
             w.self.format = ac::ACL_FORMAT_ND;
         }},
        {"five axes", check::format, [](c& w) { w.all([](tensor_words& t) { t.dims.assign(5, 1); }); }},
        {"two axes", check::format,
         [](c& w) {
             w.grad_output.dims = {3, 6};
         }},
        {"no axes", check::format, [](c& w) { w.grad_output.dims = {}; }},
        {"gradOutput of three axes", check::rank,
         [](c& w) {
             w.grad_output.dims = {3, 3, 6};
         }},
        {"self of three axes", check::rank,
         [](c& w) {
             w.self.dims = {3, 6, 5};
         }},
        {"gradInput of three axes", check::rank,
         [](c& w) {
             w.grad_input.dims = {3, 6, 5};
         }},
        {"gradOutput negative", check::negative_size, [](c& w) { w.grad_output.dims[3] = -1; }},
        {"self negative", check::negative_size, [](c& w) { w.self.dims[0] = int64_min; }},
        {"gradInput negative", check::negative_size, [](c& w) { w.grad_input.dims[1] = -3; }},
        {"kernelSize empty", check::kernel_size, [](c& w) { w.kernel = list{}; }},
        {"kernelSize of three", check::kernel_size,
         [](c& w) {
             w.kernel = list{3, 2, 1};
         }},
        {"kernelSize of many", check::kernel_size, [](c& w) { w.kernel = list(1000, 2); }},
        {"kernelSize zero", check::kernel_size,
         [](c& w) {
             w.kernel = list{3, 0};
         }},
        {"kernelSize negative", check::kernel_size, [](c& w) { w.kernel = list{int64_min}; }},
        {"stride of three", check::stride,
         [](c& w) {
             w.stride = list{2, 1, 1};
         }},
        {"stride zero", check::stride, [](c& w) { w.stride = list{0}; }},
        {"stride negative", check::stride,
         [](c& w) {
             w.stride = list{2, -1};
         }},
        {"padding empty", check::padding, [](c& w) { w.padding = list{}; }},
        {"padding of three", check::padding,
         [](c& w) {
             w.padding = list{1, 1, 1};
         }},
        {"padding negative", check::padding,
         [](c& w) {
             w.padding = list{1, -1};
         }},
        {"padding above half of 3", check::padding,
         [](c& w) {
             w.padding = list{2, 1};
         }},
        {"padding above half of 2", check::padding,
         [](c& w) {
             w.padding = list{1, 2};
         }},
        {"padding huge", check::padding, [](c& w) { w.padding = list{int64_max}; }},
        {"cubeMathType -1", check::cube_math_type, [](c& w) { w.cube = -1; }},
        {"cubeMathType 4", check::cube_math_type, [](c& w) { w.cube = 4; }},
        {"cubeMathType 127", check::cube_math_type, [](c& w) { w.cube = 127; }},
        {"gradInput of another N", check::self_shape, [](c& w) { w.grad_input.dims[0] = 3; }},
        {"gradInput of another W", check::self_shape, [](c& w) { w.grad_input.dims[3] = 6; }},
        {"gradOutput of another N", check::grad_output_shape, [](c& w) { w.grad_output.dims[0] = 1; }},
        {"gradOutput of another C", check::grad_output_shape, [](c& w) { w.grad_output.dims[1] = 4; }},
        {"gradOutput too high", check::grad_output_shape, [](c& w) { w.grad_output.dims[2] = 4; }},
        {"gradOutput too narrow", check::grad_output_shape, [](c& w) { w.grad_output.dims[3] = 5; }},
        {"gradOutput empty", check::grad_output_shape, [](c& w) { w.grad_output.dims[3] = 0; }},
        {"divisorOverride -256", check::divisor_override,
         [](c& w) {
             w.divisor = -256;
             w.profile = ac::product::legacy;
         }},
        {"divisorOverride 256", check::divisor_override,
         [](c& w) {
             w.divisor = 256;
             w.profile = ac::product::legacy;
         }},
    };
    return all;
}

// Mistakes in memory, which the last check finds.
const std::vector<mistake>& memory_mistakes() {
    using c = call_words;
    using tr::check;
    static const std::vector<mistake> all{
        {"gradInput overlaps itself", check::memory,
         [](c& w) {
             w.grad_input.strides = {90, 30, 4, 1};
         }},
        {"gradInput expanded", check::memory,
         [](c& w) {
             w.grad_input.strides = {90, 0, 5, 1};
         }},
        {"gradInput out of storage", check::memory,
         [](c& w) {
             w.grad_input.storage = {2, 3, 6, 4};
         }},
        {"gradInput before its storage", check::memory,
         [](c& w) {
             w.grad_input.offset = -1;
             w.grad_input.storage = {1000};
         }},
        {"gradInput reversed out of storage", check::memory,
         [](c& w) {
             w.grad_input.strides = {-90, 30, 5, 1};
             w.grad_input.offset = 89;
             w.grad_input.storage = {180};
         }},
        {"gradOutput out of storage", check::memory, [](c& w) { w.grad_output.storage = {107}; }},
        {"gradOutput, one element for all, in an empty storage", check::memory,
         [](c& w) {
             w.grad_output.strides = {0, 0, 0, 0};
             w.grad_output.storage = {0};
         }},
        {"gradOutput in an empty storage with more elements than 63 bits count", check::memory,
         [](c& w) {
             w.grad_output.storage = {std::int64_t{1} << 62, 4, 0};
         }},
        {"gradOutput in a negative storage", check::memory,
         [](c& w) {
             w.grad_output.storage = {-108, -1};
         }},
        {"gradOutput beyond addresses", check::memory,
         [](c& w) {
             w.grad_output.strides = {int64_max, int64_max, int64_max, int64_max};
         }},
        {"gradOutput before addresses", check::memory,
         [](c& w) {
             w.grad_output.strides = {int64_min, int64_min, int64_min, int64_min};
         }},
        {"gradOutput longer than addresses, about its offset", check::memory,
         [](c& w) {
             w.grad_output.strides = {3, 1, 1, (INT64_C(3) << 60) / 5 - 16};
             w.grad_output.offset = -(INT64_C(1) << 60);
             w.cube = 1;
         }},
        {"gradOutput at an offset beyond addresses", check::memory, [](c& w) { w.grad_output.offset = int64_max; }},
        {"gradInput at an offset before addresses", check::memory, [](c& w) { w.grad_input.offset = int64_min; }},
    };
    return all;
}

// Makes the mistake with memory behind the tensors; nothing may be written, and there is no executor.
void expect_refused(const call_words& correct, const std::function<void(call_words&)>& make, tr::check check) {
    guarded_buffer<float> output(180);
    guarded_buffer<float> input(108);
    call_words c = correct;
    c.grad_input.data = output.data();
    c.grad_output.data = input.data();
    make(c);
    const auto before = output.snapshot();
    const outcome o = c.plan();
    EXPECT_EQ(o.code, check == tr::check::null_pointer ? ACLNN_ERR_PARAM_NULLPTR : ACLNN_ERR_PARAM_INVALID);
    if (check != tr::check::memory) {
        EXPECT_EQ(o.failed, check);
    }
    EXPECT_EQ(o.bytes, 0U);
    EXPECT_EQ(o.executor, nullptr);
    EXPECT_EQ(output.snapshot(), before);
}

TEST(aclnn, each_mistake_has_its_code_and_nothing_is_written) {
    const outcome correct = call_words{}.plan();
    ASSERT_EQ(correct.failed, tr::check::none);
    ASSERT_EQ(ac::aclDestroyAclOpExecutor(correct.executor), ACLNN_SUCCESS);
    for (const auto* rows : {&mistakes(), &memory_mistakes()}) {
        for (const mistake& m : *rows) {
            SCOPED_TRACE(m.name);
            expect_refused({}, m.make, m.check);
        }
    }
}

TEST(aclnn, the_earlier_of_two_mistakes_counts) {
    for (const mistake& first : mistakes()) {
        for (const mistake& second : mistakes()) {
            if (first.check >= second.check) continue;
            SCOPED_TRACE(std::string(first.name) + " and " + std::string(second.name));
            expect_refused(
                {},
                [&](call_words& c) {
                    second.make(c);
                    first.make(c);
                },
                first.check);
        }
    }
}

TEST(aclnn, every_check_has_a_row) {
    for (int i = 1; i <= 12; ++i)
        EXPECT_TRUE(std::any_of(mistakes().begin(), mistakes().end(), [&](const mistake& m) {
            return static_cast<int>(m.check) == i;
        })) << i;
}

TEST(aclnn, codes_are_those_of_the_original) {
    EXPECT_EQ(ACLNN_SUCCESS, 0);
    EXPECT_EQ(ACLNN_ERR_PARAM_NULLPTR, 161001);
    EXPECT_EQ(ACLNN_ERR_PARAM_INVALID, 161002);
    EXPECT_EQ(ac::ACLNN_ERR_RUNTIME_ERROR, 361001);
    EXPECT_EQ(ACLNN_ERR_INNER_CREATE_EXECUTOR, 561101);
    EXPECT_EQ(ac::ACLNN_ERR_INNER_NULLPTR, 561103);
    EXPECT_EQ(ac::ACL_FLOAT, 0);
    EXPECT_EQ(ac::ACL_FLOAT16, 1);
    EXPECT_EQ(ac::ACL_BF16, 27);
    EXPECT_EQ(ac::ACL_FORMAT_NCHW, 0);
    EXPECT_EQ(ac::ACL_FORMAT_NHWC, 1);
    EXPECT_EQ(ac::ACL_FORMAT_ND, 2);
    EXPECT_EQ(ac::ACL_FORMAT_NCL, 47);
    EXPECT_EQ(tr::status_of(gk::status(gk::error{gk::errc::overflow})), ACLNN_ERR_PARAM_INVALID);
}

// The limits of the checks, from the inside.
TEST(aclnn, what_is_just_allowed) {
    const auto accepted = [](const std::function<void(call_words&)>& change) {
        call_words c;
        change(c);
        const outcome o = c.plan();
        EXPECT_EQ(o.failed, tr::check::none);
        if (o.code == ACLNN_SUCCESS) {
            EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
        }
        return o.code == ACLNN_SUCCESS && o.executor != nullptr;
    };
    EXPECT_TRUE(accepted([](call_words&) {}));
    for (const std::int64_t divisor : {int64_min, std::int64_t{-256}, std::int64_t{256}, int64_max})
        EXPECT_TRUE(accepted([&](call_words& c) { c.divisor = divisor; }));
    for (const std::int64_t divisor : {-255, -1, 0, 255}) {
        EXPECT_TRUE(accepted([&](call_words& c) {
            c.divisor = divisor;
            c.profile = ac::product::legacy;
        }));
    }
    // no stride, an empty one, and one number for both axes, whatever the lengths of the others
    const auto lists = [&](list kernel, std::optional<list> stride, list padding, list small) {
        return accepted([&](call_words& c) {
            c.kernel = kernel;
            c.stride = stride;
            c.padding = padding;
            c.grad_output.dims = {2, 3, small[0], small[1]};
        });
    };
    EXPECT_TRUE(lists({3, 2}, {}, {1}, {2, 3}));
    EXPECT_TRUE(lists({3, 2}, list{}, {1, 0}, {2, 2}));
    EXPECT_TRUE(lists({3}, list{1}, {1}, {6, 5}));
    EXPECT_TRUE(lists({3}, list{2, 1}, {0, 1}, {2, 5}));
    EXPECT_TRUE(lists({2, 5}, list{2}, {1, 2}, {4, 3}));
    EXPECT_TRUE(lists({2}, list{}, {0}, {3, 2}));
    // many channels
    EXPECT_TRUE(accepted([](call_words& c) { c.all([](tensor_words& t) { t.dims[1] = 65536 + 4; }); }));
    // 3-D tensors under both tags, also mixed
    for (const auto other : {ac::ACL_FORMAT_NCL, ac::ACL_FORMAT_NCHW}) {
        EXPECT_TRUE(accepted([&](call_words& c) {
            c.all([](tensor_words& t) {
                t.dims.erase(t.dims.begin());
                t.format = ac::ACL_FORMAT_NCL;
            });
            c.self.format = other;
        }));
    }
    // exactly the storage that is needed, at an offset; inputs may have any strides
    EXPECT_TRUE(accepted([](call_words& c) {
        c.grad_input.offset = 20;
        c.grad_input.storage = {5, 40};
        c.grad_output.strides = {0, -18, 0, 1};
        c.grad_output.offset = 36;
        c.grad_output.storage = {42};
    }));
    // self's memory is of no interest
    EXPECT_TRUE(accepted([](call_words& c) {
        c.self.strides = {0, int64_max, int64_min, 0};
        c.self.offset = int64_max;
        c.self.storage = {0};
    }));
}

TEST(aclnn, objects_that_cannot_be_made_are_null) {
    const list dims{1, 2, 3, 4};
    EXPECT_EQ(ac::aclCreateTensor(nullptr, 4, ac::ACL_FLOAT, nullptr, 0, ac::ACL_FORMAT_NCHW, dims.data(), 4, nullptr),
              nullptr);
    EXPECT_EQ(ac::aclCreateTensor(dims.data(), 4, ac::ACL_FLOAT, nullptr, 0, ac::ACL_FORMAT_NCHW, nullptr, 4, nullptr),
              nullptr);
    EXPECT_EQ(ac::aclCreateIntArray(nullptr, 1), nullptr);
    const list_object none(ac::aclCreateIntArray(nullptr, 0));
    EXPECT_NE(none, nullptr);
    EXPECT_EQ(ac::aclDestroyTensor(nullptr), ACLNN_SUCCESS);
    EXPECT_EQ(ac::aclDestroyIntArray(nullptr), ACLNN_SUCCESS);
    allocations_until_failure = 0;
    EXPECT_EQ(ac::aclCreateIntArray(dims.data(), 4), nullptr);
    allocations_until_failure = 0;
    EXPECT_EQ(ac::aclCreateTensor(dims.data(), 4, ac::ACL_FLOAT, nullptr, 0, ac::ACL_FORMAT_NCHW, nullptr, 0, nullptr),
              nullptr);
    allocations_until_failure = -1;
}

TEST(aclnn, without_memory_there_is_no_executor) {
    const call_words c;
    const tensor_object dy = c.grad_output.make();
    const tensor_object dx = c.grad_input.make();
    const list_object pair(ac::aclCreateIntArray(c.kernel->data(), 2));
    const list_object stride(ac::aclCreateIntArray(c.stride->data(), 2));
    const list_object padding(ac::aclCreateIntArray(c.padding->data(), 2));
    std::uint64_t bytes = 7;
    auto* executor = reinterpret_cast<ac::aclOpExecutor*>(std::uintptr_t{7});
    const auto plan = [&] {
        return ac::aclnnAvgPool2dBackwardGetWorkspaceSize(dy.get(), dx.get(), pair.get(), stride.get(), padding.get(),
                                                          false, false, 0, 0, dx.get(), &bytes, &executor);
    };
    allocations_until_failure = 0;
    EXPECT_EQ(plan(), ACLNN_ERR_INNER_CREATE_EXECUTOR);
    allocations_until_failure = -1;
    EXPECT_EQ(bytes, 0U);
    EXPECT_EQ(executor, nullptr);
    // Executors until the table has to grow, which fails as well.
    std::vector<ac::aclOpExecutor*> made;
    bool grew = true;
    for (int i = 0; grew && i < 100'000; ++i) {
        allocations_until_failure = 1;
        grew = plan() == ACLNN_SUCCESS;
        allocations_until_failure = -1;
        if (grew) made.push_back(executor);
    }
    EXPECT_FALSE(grew);
    EXPECT_EQ(executor, nullptr);
    for (ac::aclOpExecutor* e : made) EXPECT_EQ(ac::aclDestroyAclOpExecutor(e), ACLNN_SUCCESS);
    ASSERT_EQ(plan(), ACLNN_SUCCESS);
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
}

TEST(aclnn, huge_sizes_have_a_status) {
    constexpr std::int64_t big = std::int64_t{1} << 31;
    const auto code = [](const list& small, const list& large, const list& kernel, const list& stride,
                         const list& padding, const list& strides = {}) {
        call_words c;
        c.grad_output.dims = small;
        c.grad_output.strides = strides;
        c.self.dims = c.grad_input.dims = large;
        c.kernel = kernel;
        c.stride = stride;
        c.padding = padding;
        ac::aclnnStatus worst = ACLNN_SUCCESS;
        for (int cube = 0; cube < 4; ++cube) {
            c.cube = static_cast<std::int8_t>(cube);
            const outcome o = c.plan();
            worst = std::max(worst, o.code);
            if (o.code == ACLNN_SUCCESS) {
                EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
            }
        }
        return worst;
    };
    EXPECT_EQ(code({big, big, big, 1}, {big, big, big, 1}, {1}, {1}, {0}), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({1, 1, int64_max, 1}, {1, 1, int64_max, 1}, {1}, {1}, {0}), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({0, 1, big, big}, {0, 1, big, big}, {1}, {1}, {0}), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({0, 0, int64_max, int64_max}, {0, 0, int64_max, int64_max}, {1}, {1}, {0}), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({1, 1, 1, 1}, {1, 1, 4, 4}, {int64_max}, {1}, {int64_max / 2}), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({1, 1, 1, 1}, {1, 1, 4, 4}, {std::int64_t{1} << 61}, {1}, {std::int64_t{1} << 60}),
              ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(code({1, 1, 1, 1}, {1, 1, 4, 4}, {2}, {int64_max}, {1}), ACLNN_SUCCESS);
    // An expanded gradient as large as addresses go: sizes can be told, without touching memory.
    const list large{1, 1, big, 1 << 20};
    EXPECT_EQ(code(large, large, {1}, {1}, {0}, {0, 0, 0, 0}), ACLNN_SUCCESS);
    EXPECT_EQ(code(large, large, {1}, {1}, {0}), ACLNN_SUCCESS);
}

// A kernel of 2^40 costs what its taps inside cost.
TEST(aclnn, enormous_kernels_take_little_time) {
    const std::int64_t k = std::int64_t{1} << 30;
    const auto dy = tensor_of<float>({1, 1, 1, 1}, {8});
    for (const bool include : {false, true}) {
        const test_tensor<float> dx({1, 1, 2, 2});
        call_words c;
        c.grad_output = words_of(dy);
        c.self = c.grad_input = words_of(dx);
        c.kernel = list{k};
        c.stride.reset();
        c.padding = list{k / 2};
        c.include = include;
        ASSERT_EQ(compute(c), ACLNN_SUCCESS);
        EXPECT_TRUE(dx.equals(reference(c, dy, dx.shape())));
        EXPECT_EQ(dx.value(0), include ? 8 / 0x1p60F : 2);
    }
}

// -------------------------------------------------------------------------------------------------------- the contract

TEST(aclnn, row_36) {
    call_words c;
    c.grad_output.is_null = true;
    EXPECT_EQ(c.plan().code, ACLNN_ERR_PARAM_NULLPTR);
    c = {};
    c.cube = 7;
    EXPECT_EQ(c.plan().code, ACLNN_ERR_PARAM_INVALID);
    c = {};
    c.kernel = list{3};
    c.padding = list{2};
    EXPECT_EQ(c.plan().code, ACLNN_ERR_PARAM_INVALID);
    const auto dy = tensor_of<float>({1, 1, 2, 2}, {4, 8, 12, 16});
    const test_tensor<float> dx({1, 1, 4, 4});
    c = {};
    c.grad_output = words_of(dy);
    c.self = c.grad_input = words_of(dx);
    c.kernel = list{2};
    c.stride.reset();
    c.padding = list{0};
    ASSERT_EQ(compute(c), ACLNN_SUCCESS);
    EXPECT_EQ(values_of(dx), (std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
}

TEST(aclnn, row_37) {
    const auto dy = tensor_of<float>({1, 1, 2}, {4, 8});
    for (const std::int64_t divisor : {0, -4}) {
        const test_tensor<float> dx({1, 1, 4});
        call_words c;
        c.grad_output = words_of(dy);
        c.self = c.grad_input = words_of(dx);
        c.kernel = c.stride = list{1, 2};
        c.padding = list{0};
        c.divisor = divisor;
        ASSERT_EQ(compute(c), ACLNN_SUCCESS);
        EXPECT_EQ(values_of(dx),
                  divisor == 0 ? (std::vector<float>{2, 2, 4, 4}) : (std::vector<float>{-1, -1, -2, -2}));
    }
}

TEST(aclnn, row_38) {
    const auto dy = tensor_of<float>({1, 1, 2}, {4, 8});
    const test_tensor<float> dx({1, 1, 4});
    call_words c;
    c.grad_output = words_of(dy);
    c.self = c.grad_input = words_of(dx);
    c.kernel = c.stride = list{1, 2};
    c.padding = list{0};
    const outcome o = c.plan();
    ASSERT_EQ(run(o), ACLNN_SUCCESS);
    EXPECT_EQ(run(o), ACLNN_ERR_PARAM_INVALID);
}

// Spec row 12: the overhanging last window, with the divisors of both kinds, and the size of both roundings.
TEST(aclnn, ceil_mode_and_divisors) {
    const auto dy = tensor_of<float>({1, 1, 1, 4}, {6, 6, 6, 6});
    call_words c;
    c.kernel = list{1, 3};
    c.stride = list{1, 2};
    c.padding = list{0, 1};
    c.ceil = true;
    for (const bool include : {false, true}) {
        const test_tensor<float> dx({1, 1, 1, 6});
        c.grad_output = words_of(dy);
        c.self = c.grad_input = words_of(dx);
        c.include = include;
        ASSERT_EQ(compute(c), ACLNN_SUCCESS);
        EXPECT_EQ(values_of(dx),
                  include ? (std::vector<float>{2, 4, 2, 4, 2, 5}) : (std::vector<float>{3, 5, 2, 4, 2, 8}));
    }
    // I = 5, k = 2, s = 3, pad 1: ceil would have 3 windows, the last in the padding is dropped
    for (const bool ceil : {false, true}) {
        for (const std::int64_t windows : {1, 2, 3}) {
            call_words w;
            w.grad_output.dims = {1, 1, 1, windows};
            w.self.dims = w.grad_input.dims = {1, 1, 1, 5};
            w.kernel = list{1, 2};
            w.stride = list{1, 3};
            w.padding = list{0, 1};
            w.ceil = ceil;
            const outcome o = w.plan();
            EXPECT_EQ(o.code, windows == 2 ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID);
            if (o.executor != nullptr) {
                EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
            }
        }
    }
}

// A 3-D tensor is one image of several channels, not several lines.
TEST(aclnn, three_axes_are_channels_height_width) {
    const auto dy = tensor_of<float>({2, 1, 1}, {4, 8});
    const test_tensor<float> dx({2, 2, 2});
    call_words c;
    c.grad_output = words_of(dy);
    c.self = c.grad_input = words_of(dx);
    c.kernel = list{2};
    c.stride.reset();
    c.padding = list{0};
    ASSERT_EQ(compute(c), ACLNN_SUCCESS);
    EXPECT_EQ(values_of(dx), (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2}));
}

// Sums of 16-bit types are kept in f32: 1000 is what bf16 makes of 1001.
TEST(aclnn, sixteen_bit_types_are_summed_in_f32) {
    const auto largest = [](auto element) {
        using T = decltype(element);
        const auto dy = tensor_of<T>({1, 1, 1, 1001}, std::vector<float>(1001, 1.0F));
        const test_tensor<T> dx({1, 1, 1, 4000});
        call_words c;
        c.grad_output = words_of(dy);
        c.self = c.grad_input = words_of(dx);
        c.kernel = list{1, 3000};
        c.stride = list{1};
        c.padding = list{0};
        c.divisor = 1;
        EXPECT_EQ(compute(c), ACLNN_SUCCESS);
        const auto values = values_of(dx);
        return *std::max_element(values.begin(), values.end());
    };
    EXPECT_EQ(largest(gk::float16{}), 1001.0F);
    EXPECT_EQ(largest(gk::bfloat16{}), 1000.0F);
    EXPECT_EQ(largest(float{}), 1001.0F);
}

TEST(aclnn, empty_tensors) {
    const auto plan = [](const list& small, const list& large, ac::aclFormat format = ac::ACL_FORMAT_NCHW) {
        call_words c;
        c.all([&](tensor_words& t) { t.format = format; });
        c.grad_output.dims = small;
        c.self.dims = c.grad_input.dims = large;
        return c.plan();
    };
    for (const auto& [small, large] : {std::pair{list{0, 3, 3, 6}, list{0, 3, 6, 5}},
                                       {list{2, 0, 3, 6}, list{2, 0, 6, 5}},
                                       {list{0, 0, 3, 6}, list{0, 0, 6, 5}},
                                       {list{0, 3, 6}, list{0, 6, 5}}}) {
        const outcome o = plan(small, large);
        ASSERT_EQ(o.code, ACLNN_SUCCESS);
        EXPECT_EQ(o.bytes, 0U);
        EXPECT_EQ(ac::workspace_bytes(o.executor, 8), 0U);
        EXPECT_EQ(ac::aclnnAvgPool2dBackward(nullptr, 0, o.executor, nullptr), ACLNN_SUCCESS);
        EXPECT_EQ(ac::aclnnAvgPool2dBackward(nullptr, 0, o.executor, nullptr), ACLNN_ERR_PARAM_INVALID);
    }
    for (const auto& [small, large] : {std::pair{list{0, 3, 3, 6}, list{2, 3, 6, 5}},
                                       {list{2, 3, 3, 6}, list{0, 3, 6, 5}},
                                       {list{2, 0, 3, 6}, list{2, 3, 6, 5}},
                                       {list{0, 3, 4, 6}, list{0, 3, 6, 5}},
                                       {list{2, 0, 3, 5}, list{2, 0, 6, 5}},
                                       {list{2, 3, 3, 6}, list{2, 3, 0, 5}},
                                       {list{2, 3, 3, 6}, list{2, 3, 6, 0}},
                                       {list{2, 3, 0, 6}, list{2, 3, 0, 5}},
                                       {list{0, 3, 0, 6}, list{0, 3, 0, 5}},
                                       {list{2, 0, 3, 0}, list{2, 0, 6, 0}},
                                       {list{3, 0, 6}, list{3, 0, 5}}}) {
        const outcome o = plan(small, large);
        EXPECT_EQ(o.code, ACLNN_ERR_PARAM_INVALID);
        EXPECT_EQ(o.failed, tr::check::grad_output_shape);
        EXPECT_EQ(o.executor, nullptr);
    }
}

// Random calls with strided tensors in every type, against the reference; threads do not change a bit.
template <class T>
class aclnn_types : public ::testing::Test {};
using element_types = ::testing::Types<float, gk::float16, gk::bfloat16>;
TYPED_TEST_SUITE(aclnn_types, element_types);

TYPED_TEST(aclnn_types, random_calls_agree_with_the_reference) {
    using T = TypeParam;
    random_source random("aclnn.random_calls");
    const std::array<std::function<float(float)>, 4> rounds{nullptr, tr::to_hf32, tr::to_f16, tr::to_hf32};
    gk::thread_pool pool(3);
    const gk::executor_ref threads(pool);
    for (int i = 0; i < 400; ++i) {
        GRADKERN_TRACE_SEED(random);
        call_words c;
        const auto numbers = [&](std::int64_t low, std::int64_t high) {
            list l{random.integer(low, high)};
            if (random.chance(1, 2)) l.push_back(random.integer(low, high));
            return l;
        };
        c.kernel = numbers(1, 5);
        const extents k{c.kernel->front(), c.kernel->back()};
        if (random.chance(1, 3)) {
            c.stride = random.chance(1, 2) ? std::optional<list>() : list{};
        } else {
            c.stride = numbers(1, 4);
        }
        c.padding = numbers(0, std::min(k[0], k[1]) / 2);
        c.ceil = random.chance(1, 2);
        c.include = random.chance(1, 2);
        c.divisor = random.chance(1, 3) ? random.integer(-300, 300) : 0;
        c.cube = static_cast<std::int8_t>(random.integer(0, std::is_same_v<T, float> ? 3 : 1));
        extents large{random.integer(1, 3), random.pick<std::int64_t>({1, 3, 8, 17}), random.integer(1, 20),
                      random.integer(1, 40)};
        const auto small = gk::infer_avg_pool(large, c.attributes());
        extents shape = large;
        if (small && random.chance(1, 4)) shape = {large[1], large[2], large[3]};
        if (!small || (shape.rank() == 3 && large[0] != 1)) {
            random.next_case();
            continue;
        }
        extents small_shape = *small;
        if (shape.rank() == 3) small_shape = {(*small)[1], (*small)[2], (*small)[3]};
        const test_tensor<T> dy(small_shape,
                                random.chance(1, 2) ? random_input_strides(random, small_shape) : extents{});
        test_tensor<T> dx(shape, random.chance(1, 2) ? random_output_strides(random, shape) : extents{});
        dy.fill_random(random);
        c.grad_output = words_of(dy);
        c.grad_input = words_of(dx);
        c.self = {.dims = to_list(shape), .type = type_of<T>, .format = c.grad_input.format};
        const auto round = std::is_same_v<T, float> ? rounds[static_cast<std::size_t>(c.cube)] : nullptr;
        const auto expected = reference(c, dy, shape, round);

        ASSERT_EQ(compute(c), ACLNN_SUCCESS);
        ASSERT_TRUE(dx.equals(expected));
        ASSERT_TRUE(dx.surroundings_intact());

        // with threads and workspace for them; the executor is kept for a second run
        const outcome o = c.plan();
        ASSERT_EQ(o.code, ACLNN_SUCCESS);
        ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_SUCCESS);
        EXPECT_EQ(ac::workspace_bytes(o.executor, 1), o.bytes);
        const std::uint64_t more = ac::workspace_bytes(o.executor, 3);
        EXPECT_GE(more, o.bytes);
        guarded_bytes workspace(static_cast<std::size_t>(more), touching::begin,
                                static_cast<std::size_t>(random.integer(0, 64)));
        for (int repetition = 0; repetition < 2; ++repetition) {
            dx.poison();
            ASSERT_EQ(ac::aclnnAvgPool2dBackward(more == 0 ? nullptr : workspace.data(), more, o.executor,
                                                 const_cast<gk::executor_ref*>(&threads)),
                      ACLNN_SUCCESS);
            ASSERT_TRUE(dx.equals(expected));
            ASSERT_TRUE(dx.surroundings_intact());
            ASSERT_TRUE(workspace.zones_intact());
        }
        EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
        random.next_case();
    }
}

TEST(aclnn, a_stream_lends_its_threads) {
    test_tensor<float> dy({4, 8, 16, 16});
    dy.fill([](std::int64_t i) { return static_cast<float>(i % 13); });
    test_tensor<float> dx({4, 8, 32, 32});
    call_words c;
    c.grad_output = words_of(dy);
    c.self = c.grad_input = words_of(dx);
    c.kernel = list{3};
    c.stride = list{2};
    c.padding = list{1};
    c.cube = 1;
    const auto expected = reference(c, dy, dx.shape(), tr::to_hf32);
    shuffling_executor shuffled(5);
    thread_executor threads(5);
    for (const gk::executor_ref& lent : {gk::executor_ref(shuffled), gk::executor_ref(threads)}) {
        const outcome o = c.plan();
        const std::uint64_t bytes = ac::workspace_bytes(o.executor, 5);
        guarded_bytes workspace(static_cast<std::size_t>(bytes));
        gk::executor_ref stream = lent;
        dx.poison();
        ASSERT_EQ(ac::aclnnAvgPool2dBackward(workspace.data(), bytes, o.executor, &stream), ACLNN_SUCCESS);
        EXPECT_TRUE(dx.equals(expected));
    }
    EXPECT_GE(shuffled.calls(), 5);
}

// -------------------------------------------------------------------------------------------------------- cubeMathType

TEST(aclnn, hf32_has_eleven_fraction_bits) {
    constexpr std::array<std::array<std::uint32_t, 2>, 27> rows{{
        {0x00000000, 0x00000000}, {0x3f800000, 0x3f800000},
        {0x3f8007ff, 0x3f800000},                            // below a tie
        {0x3f800800, 0x3f800000}, {0x3f800801, 0x3f801000},  // a tie to the even one below, and above it
        {0x3f801800, 0x3f802000}, {0x3f8017ff, 0x3f801000},  // a tie to the even one above
        {0x3fffffff, 0x40000000}, {0x3ffff800, 0x40000000},  // into the next exponent
        {0x3ffff7ff, 0x3ffff000}, {0x7f7ff7ff, 0x7f7ff000},
        {0x7f7ff800, 0x7f800000},  // the largest number, and up to infinity
        {0x7f7fffff, 0x7f800000}, {0xff7fffff, 0xff800000},
        {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
        {0x80000000, 0x80000000}, {0xbf800801, 0xbf801000},
        {0x00000001, 0x00000000}, {0x00000800, 0x00000000},  // subnormal numbers
        {0x00000801, 0x00001000}, {0x00001800, 0x00002000},
        {0x007ff7ff, 0x007ff000}, {0x007fffff, 0x00800000},
        {0x807fffff, 0x80800000}, {0x00800000, 0x00800000},
        {0x00800800, 0x00800000},
    }};
    for (const auto& [in, out] : rows)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(tr::to_hf32(std::bit_cast<float>(in))), out) << std::hex << in;
    for (const std::uint32_t in : {0x7f800001U, 0x7f8007ffU, 0x7fffffffU, 0x7fc00000U, 0xff800001U, 0xffffffffU}) {
        const float out = tr::to_hf32(std::bit_cast<float>(in));
        EXPECT_TRUE(std::isnan(out)) << std::hex << in;
        EXPECT_EQ(std::signbit(out), in >> 31 == 1U);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out) & 0xfffU, 0U);
    }
    static_assert(tr::to_hf32(1.0F) == 1.0F);
}

// The same by arithmetic in double: the nearest multiple of 2^-11 of the power of two below.
TEST(aclnn, hf32_is_the_nearest) {
    random_source random("aclnn.hf32");
    for (int i = 0; i < 200'000; ++i) {
        auto word = static_cast<std::uint32_t>(random.bits());
        if (random.chance(1, 4)) word = (word & ~0xfffU) | 0x800U;  // ties
        if (random.chance(1, 8)) word &= 0x807fffffU;               // subnormal numbers
        const auto x = std::bit_cast<float>(word);
        if (!std::isfinite(x)) continue;
        const double step = std::ldexp(1.0, std::max(x == 0 ? -126 : std::ilogb(x), -126) - 11);
        const double nearest = std::nearbyint(x / step) * step;
        const float expected = std::abs(nearest) >= 0x1p128 ? std::copysign(inf, x) : static_cast<float>(nearest);
        ASSERT_EQ(tr::to_hf32(x), expected) << x;
    }
}

TEST(aclnn, cube_math_type_says_what_is_rounded) {
    constexpr std::array types{ac::ACL_FLOAT, ac::ACL_FLOAT16, ac::ACL_BF16};
    constexpr std::array<std::array<bool, 4>, 3> accepted{
        {{true, true, true, true}, {true, true, true, false}, {true, true, false, false}}};
    for (std::size_t t = 0; t < types.size(); ++t) {
        for (int cube = -128; cube < 128; ++cube) {
            call_words c;
            c.all([&](tensor_words& words) { words.type = types[t]; });
            c.cube = static_cast<std::int8_t>(cube);
            const outcome o = c.plan();
            const bool good = cube >= 0 && cube < 4 && accepted[t][static_cast<std::size_t>(cube)];
            EXPECT_EQ(o.code, good ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID) << cube;
            if (good) {
                EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
                const auto expected = t != 0 || cube == 0 ? tr::rounding::none
                                      : cube == 2         ? tr::rounding::f16
                                                          : tr::rounding::hf32;
                EXPECT_EQ(tr::rounding_of(c.cube, types[t]), expected);
            }
        }
    }
}

// Rounded once, before the division, in both phases' numbers; 16-bit types are left as they are.
TEST(aclnn, gradients_are_rounded_before_the_division) {
    const std::vector<float> values{1.0F,
                                    1.0F + 0x1p-12F,
                                    1.0F + 0x1p-11F + 0x1p-12F,
                                    -(1.0F + 0x1p-12F + 0x1p-23F),
                                    0x1.fffffep127F,
                                    65519.0F,
                                    65520.0F,
                                    -1e30F,
                                    0x1p-149F,
                                    0x1.8p-138F,
                                    0x1p-25F,
                                    0x1.8p-24F,
                                    inf,
                                    -inf,
                                    nan,
                                    0.1F};
    const std::array<std::function<float(float)>, 4> rounds{nullptr, tr::to_hf32, tr::to_f16, tr::to_hf32};
    const auto dy = tensor_of<float>({1, 2, 2, 4}, values);
    for (std::size_t cube = 0; cube < 4; ++cube) {
        SCOPED_TRACE(cube);
        for (const auto& [kernel, divisor] : {std::pair{list{1, 1}, 0}, {list{2, 3}, 0}, {list{1, 1}, 3}}) {
            call_words c;
            const auto before = dy.snapshot();
            const test_tensor<float> dx({1, 2, 2 + kernel[0] - 1, 4 + kernel[1] - 1});
            c.grad_output = words_of(dy);
            c.self = c.grad_input = words_of(dx);
            c.kernel = kernel;
            c.stride = list{1};
            c.padding = list{0};
            c.divisor = divisor;
            c.cube = static_cast<std::int8_t>(cube);
            ASSERT_EQ(compute(c), ACLNN_SUCCESS);
            EXPECT_TRUE(dx.equals(reference(c, dy, dx.shape(), rounds[cube])));
            EXPECT_EQ(dy.snapshot(), before);
            if (kernel[0] == 1 && divisor == 0) {
                for (std::size_t i = 0; i < values.size(); ++i) {
                    const float expected = rounds[cube] ? rounds[cube](values[i]) : values[i];
                    const float got = dx.value(static_cast<std::int64_t>(i));
                    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(values[i]))) << i;
                }
            }
        }
    }
    EXPECT_EQ(tr::to_hf32(0x1.fffffep127F), inf);
    EXPECT_EQ(tr::to_f16(65520.0F), inf);
    EXPECT_EQ(tr::to_f16(65519.0F), 65504.0F);
    EXPECT_EQ(tr::to_f16(-1e30F), -inf);
}

// Rounding needs memory for what is there, not for what is repeated.
TEST(aclnn, an_expanded_gradient_is_rounded_once) {
    const float one = 1.0F + 0x1p-13F;
    const test_tensor<float> dx({8, 16, 32, 32});
    call_words c;
    c.grad_output = {
        .dims = {8, 16, 16, 16}, .strides = {0, 0, 0, 0}, .storage = {1}, .data = const_cast<float*>(&one)};
    c.self = c.grad_input = words_of(dx);
    c.kernel = list{2};
    c.stride.reset();
    c.padding = list{0};
    const outcome plain = c.plan();
    c.cube = 3;
    const outcome rounded = c.plan();
    EXPECT_LE(rounded.bytes, plain.bytes + 128);
    ASSERT_EQ(run(plain), ACLNN_SUCCESS);
    EXPECT_EQ(dx.value(5), one / 4);
    ASSERT_EQ(run(rounded), ACLNN_SUCCESS);
    for (const float v : values_of(dx)) ASSERT_EQ(v, 0.25F);
}

// --------------------------------------------------------------------------------------------------- memory of phase 2

struct memory_case {
    test_tensor<float> dy{{1, 2, 4, 9}};
    test_tensor<float> dx{{1, 2, 8, 18}};
    call_words c{};
    test_tensor<float> expected{{1, 2, 8, 18}};

    explicit memory_case(int cube = 1) {
        dy.fill([](std::int64_t i) { return static_cast<float>(i) * 0.3F; });
        c.grad_output = words_of(dy);
        c.self = {.dims = {1, 2, 8, 18}};
        c.grad_input = words_of(dx);
        c.kernel = list{3};
        c.stride = list{2};
        c.padding = list{1};
        c.cube = static_cast<std::int8_t>(cube);
        const auto values = cube == 0 ? reference(c, dy, dx.shape()) : reference(c, dy, dx.shape(), tr::to_hf32);
        for (std::int64_t i = 0; i < values.count(); ++i) expected[i] = values[i];
    }
};

TEST(aclnn, workspaces) {
    for (const int cube : {0, 1}) {
        memory_case m(cube);
        const auto untouched = m.dx.snapshot();
        const outcome o = m.c.plan();
        ASSERT_EQ(o.code, ACLNN_SUCCESS);
        ASSERT_GT(o.bytes, 0U);
        std::vector<std::byte> room(o.bytes + 4096);
        const auto call = [&](void* workspace, std::uint64_t bytes) {
            return ac::aclnnAvgPool2dBackward(workspace, bytes, o.executor, nullptr);
        };
        // refused calls leave output and executor alone
        EXPECT_EQ(call(room.data(), 0), ACLNN_ERR_PARAM_INVALID);
        EXPECT_EQ(call(room.data(), o.bytes - 1), ACLNN_ERR_PARAM_INVALID);
        EXPECT_EQ(call(nullptr, o.bytes - 1), ACLNN_ERR_PARAM_INVALID);
        EXPECT_EQ(call(nullptr, o.bytes), ACLNN_ERR_PARAM_NULLPTR);
        EXPECT_EQ(call(nullptr, std::numeric_limits<std::uint64_t>::max()), ACLNN_ERR_PARAM_NULLPTR);
        EXPECT_EQ(call(m.dx.data(), o.bytes), ACLNN_ERR_PARAM_INVALID);
        EXPECT_EQ(m.dx.snapshot(), untouched);
        ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_SUCCESS);
        // exactly enough, at every alignment, between guards
        for (std::size_t shift = 0; shift <= 65; ++shift) {
            for (const touching side : {touching::begin, touching::end}) {
                guarded_bytes workspace(static_cast<std::size_t>(o.bytes), side, shift);
                m.dx.poison();
                ASSERT_EQ(call(workspace.data(), o.bytes), ACLNN_SUCCESS);
                ASSERT_TRUE(m.dx.equals(m.expected));
                ASSERT_TRUE(workspace.zones_intact());
            }
        }
        m.dx.poison();
        EXPECT_EQ(call(room.data(), room.size()), ACLNN_SUCCESS);
        EXPECT_TRUE(m.dx.equals(m.expected));
        EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
    }
}

TEST(aclnn, tensors_without_memory_and_overlaps) {
    for (const int cube : {0, 1}) {
        memory_case m(cube);
        const auto untouched = m.dx.snapshot();
        const auto refused = [&](const std::function<void(call_words&)>& change, ac::aclnnStatus code) {
            call_words c = m.c;
            change(c);
            const outcome o = c.plan();
            ASSERT_EQ(o.code, ACLNN_SUCCESS);
            EXPECT_EQ(run(o), code);
            EXPECT_EQ(run(o), code);  // it is still there
            EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
            EXPECT_EQ(m.dx.snapshot(), untouched);
        };
        refused([](call_words& c) { c.grad_output.data = nullptr; }, ACLNN_ERR_PARAM_NULLPTR);
        refused([](call_words& c) { c.grad_input.data = nullptr; }, ACLNN_ERR_PARAM_NULLPTR);
        refused(
            [](call_words& c) {
                c.grad_input.data = nullptr;
                c.grad_input.offset = 5;
                c.grad_input.storage = {1000};
            },
            ACLNN_ERR_PARAM_NULLPTR);
        refused([&](call_words& c) { c.grad_output.data = m.dx.data(); }, ACLNN_ERR_PARAM_INVALID);
        refused([&](call_words& c) { c.grad_output.data = m.dx.data() + 287; }, ACLNN_ERR_PARAM_INVALID);
        refused([&](call_words& c) { c.grad_output.data = m.dx.data() - 71; }, ACLNN_ERR_PARAM_INVALID);
        refused(
            [&](call_words& c) {  // the range between first and last byte counts, and the offset
                c.grad_output.data = m.dx.data() - 71;
                c.grad_output.offset = 70;
                c.grad_output.storage = {142};
                c.grad_output.strides = {0, 0, 0, 1};
            },
            ACLNN_ERR_PARAM_INVALID);
    }
    // next to each other is fine
    std::vector<float> both(72 + 288);
    for (const std::size_t first : {0U, 72U}) {
        memory_case m;
        m.c.grad_output.data = both.data() + (first == 0 ? 288 : 0);
        m.c.grad_input.data = both.data() + first;
        for (int i = 0; i < 72; ++i) static_cast<float*>(m.c.grad_output.data)[i] = m.dy.value(i);
        ASSERT_EQ(compute(m.c), ACLNN_SUCCESS);
        for (int i = 0; i < 288; ++i) ASSERT_EQ(static_cast<float*>(m.c.grad_input.data)[i], m.expected.value(i));
    }
}

// The data pointers are used in phase 2: values set between the phases count, and the objects may be gone.
TEST(aclnn, memory_is_read_in_phase_2) {
    memory_case m;
    m.dy.poison();
    const outcome o = m.c.plan();  // objects are destroyed on the way out
    m.dy.fill([](std::int64_t i) { return static_cast<float>(i) * 0.3F; });
    ASSERT_EQ(run(o), ACLNN_SUCCESS);
    EXPECT_TRUE(m.dx.equals(m.expected));
}

TEST(aclnn, offsets_count_elements) {
    const std::vector<float> numbers{9, 9, 4, 8, 9};
    std::vector<float> out(8, -1.0F);
    call_words c;
    c.grad_output = {.dims = {1, 1, 2},
                     .format = ac::ACL_FORMAT_NCL,
                     .offset = 2,
                     .storage = {5},
                     .data = const_cast<float*>(numbers.data())};
    c.grad_input = {.dims = {1, 1, 4}, .format = ac::ACL_FORMAT_NCL, .offset = 3, .storage = {8}, .data = out.data()};
    c.self = {.dims = {1, 1, 4}, .format = ac::ACL_FORMAT_NCHW};
    c.kernel = list{1, 2};
    c.stride.reset();
    c.padding = list{0};
    ASSERT_EQ(compute(c), ACLNN_SUCCESS);
    EXPECT_EQ(out, (std::vector<float>{-1, -1, -1, 2, 2, 4, 4, -1}));
}

// ----------------------------------------------------------------------------------------------------------- executors

TEST(aclnn, an_executor_serves_one_run) {
    memory_case m;
    const outcome o = m.c.plan();
    ASSERT_EQ(run(o), ACLNN_SUCCESS);
    EXPECT_TRUE(m.dx.equals(m.expected));
    m.dx.poison();
    const auto untouched = m.dx.snapshot();
    EXPECT_EQ(run(o), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(ac::workspace_bytes(o.executor, 1), 0U);
    EXPECT_EQ(m.dx.snapshot(), untouched);
}

TEST(aclnn, a_repeatable_executor_serves_until_destroyed) {
    memory_case m;
    const outcome o = m.c.plan();
    ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_SUCCESS);
    ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_SUCCESS);
    for (int i = 0; i < 5; ++i) {
        m.dx.poison();
        ASSERT_EQ(run(o), ACLNN_SUCCESS);
        EXPECT_TRUE(m.dx.equals(m.expected));
    }
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_SUCCESS);
    EXPECT_EQ(run(o), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(o.executor), ACLNN_ERR_PARAM_INVALID);
}

TEST(aclnn, null_executors) {
    std::byte workspace{};
    EXPECT_EQ(ac::aclnnAvgPool2dBackward(&workspace, 1, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(ac::aclnnAvgPool2dBackward(nullptr, 0, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(ac::aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(ac::workspace_bytes(nullptr, 1), 0U);
}

TEST(aclnn, handles_may_have_any_bits) {
    memory_case m;
    const outcome live = m.c.plan();
    const auto bits = reinterpret_cast<std::uintptr_t>(live.executor);
    std::vector<std::uintptr_t> garbage{1, 2, 0xff, ~std::uintptr_t{0}, ~std::uintptr_t{0} >> 1};
    garbage.push_back(reinterpret_cast<std::uintptr_t>(&m));
    const auto on_heap = std::make_unique<int>(1);
    garbage.push_back(reinterpret_cast<std::uintptr_t>(on_heap.get()));
    for (unsigned i = 0; i < sizeof bits * 8; ++i) {
        garbage.push_back(bits ^ (std::uintptr_t{1} << i));
        garbage.push_back(std::uintptr_t{1} << i);
    }
    random_source random("aclnn.garbage");
    for (int i = 0; i < 10'000; ++i) garbage.push_back(static_cast<std::uintptr_t>(random.bits()));
    std::vector<std::byte> workspace(live.bytes);
    const auto untouched = m.dx.snapshot();
    for (const std::uintptr_t g : garbage) {
        if (g == bits || g == 0) continue;
        auto* e = reinterpret_cast<ac::aclOpExecutor*>(g);
        ASSERT_EQ(ac::aclnnAvgPool2dBackward(workspace.data(), live.bytes, e, nullptr), ACLNN_ERR_PARAM_INVALID);
        ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(e), ACLNN_ERR_PARAM_INVALID);
        ASSERT_EQ(ac::aclDestroyAclOpExecutor(e), ACLNN_ERR_PARAM_INVALID);
        ASSERT_EQ(ac::workspace_bytes(e, 1), 0U);
    }
    EXPECT_EQ(m.dx.snapshot(), untouched);
    EXPECT_EQ(run(live), ACLNN_SUCCESS);
    EXPECT_TRUE(m.dx.equals(m.expected));
}

// Slots are used again, handles never.
TEST(aclnn, handles_stay_dead_when_the_table_is_used_again) {
    memory_case m;
    std::vector<ac::aclOpExecutor*> dead;
    for (const std::size_t count : {1000U, 300U, 2000U}) {
        std::vector<outcome> live;
        for (std::size_t i = 0; i < count; ++i) {
            live.push_back(m.c.plan());
            ASSERT_EQ(live.back().code, ACLNN_SUCCESS);
        }
        for (ac::aclOpExecutor* e : dead) {
            ASSERT_EQ(ac::workspace_bytes(e, 1), 0U);
            ASSERT_EQ(ac::aclDestroyAclOpExecutor(e), ACLNN_ERR_PARAM_INVALID);
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (i % 3 == 0) {
                ASSERT_EQ(ac::aclDestroyAclOpExecutor(live[i].executor), ACLNN_SUCCESS);
            } else {
                if (i % 100 == 1) m.dx.poison();
                ASSERT_EQ(run(live[i]), ACLNN_SUCCESS);
                if (i % 100 == 1) {
                    ASSERT_TRUE(m.dx.equals(m.expected));
                }
            }
            dead.push_back(live[i].executor);
        }
    }
    std::sort(dead.begin(), dead.end());
    EXPECT_EQ(std::adjacent_find(dead.begin(), dead.end()), dead.end());
}

// A table of its own for a test. Tables keep their memory, so it has to stay in reach.
template <class Table>
Table& kept() {
    static auto& all = *new std::vector<std::unique_ptr<Table>>;
    return *all.emplace_back(std::make_unique<Table>());
}

// A table of few slots and generations: full, and then spent.
TEST(aclnn, a_table_gives_up_slots_whose_generations_are_spent) {
    using table = tr::handle_table<int, 8, 3>;
    static_assert(table::capacity == 192);
    table& t = kept<table>();
    std::vector<std::uintptr_t> seen;
    for (int generation = 1; generation <= 7; ++generation) {
        std::vector<std::uintptr_t> live;
        for (int i = 0; i < 192; ++i) {
            const std::uintptr_t handle = t.insert(i);
            ASSERT_NE(handle, 0U);
            ASSERT_LT(handle, 1U << 11);
            live.push_back(handle);
        }
        EXPECT_EQ(t.insert(1), 0U);
        for (int i = 0; i < 192; ++i) {
            const auto object = t.borrow(live[static_cast<std::size_t>(i)]);
            ASSERT_TRUE(object);
            ASSERT_EQ(*object.operator->(), i);
        }
        for (const std::uintptr_t handle : live) ASSERT_TRUE(t.remove(handle));
        for (const std::uintptr_t handle : live) ASSERT_FALSE(t.remove(handle));
        seen.insert(seen.end(), live.begin(), live.end());
    }
    EXPECT_EQ(t.insert(1), 0U);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
    for (std::uintptr_t handle = 0; handle < 1U << 12; ++handle) ASSERT_FALSE(t.use(handle));
}

TEST(aclnn, an_object_lives_while_it_is_borrowed) {
    auto& t = kept<tr::handle_table<std::shared_ptr<int>, 8, 8>>();
    const auto counted = std::make_shared<int>(5);
    const std::uintptr_t handle = t.insert(counted);
    EXPECT_EQ(counted.use_count(), 2);
    {
        const auto object = t.borrow(handle);
        EXPECT_TRUE(t.use(handle));
        EXPECT_FALSE(t.use(handle));
        EXPECT_FALSE(t.borrow(handle));
        EXPECT_EQ(counted.use_count(), 2);
        EXPECT_EQ(**object.operator->(), 5);
    }
    EXPECT_EQ(counted.use_count(), 1);
}

TEST(aclnn, threads_create_run_and_destroy_at_once) {
    constexpr int count = 8;
    std::atomic<int> wrong{0};
    std::atomic<std::uintptr_t> shared{0};  // a handle that everybody may kill
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) {
        threads.emplace_back([&, t] {
            std::vector<float> dy(16, static_cast<float>(4 * t + 4));
            std::vector<float> dx(64);
            call_words c;
            c.grad_output = {.dims = {1, 1, 4, 4}, .data = dy.data()};
            c.self = c.grad_input = {.dims = {1, 1, 8, 8}, .data = dx.data()};
            c.kernel = list{2};
            c.stride.reset();
            c.padding = list{0};
            c.cube = static_cast<std::int8_t>(t % 4);
            std::vector<std::byte> workspace;
            for (int i = 0; i < 400; ++i) {
                const outcome o = c.plan();
                wrong += o.code != ACLNN_SUCCESS;
                workspace.resize(static_cast<std::size_t>(o.bytes));
                const int runs = i % 3;
                if (runs == 2) wrong += ac::aclSetAclOpExecutorRepeatable(o.executor) != ACLNN_SUCCESS;
                for (int r = 0; r < runs; ++r) {
                    std::fill(dx.begin(), dx.end(), nan);
                    wrong +=
                        ac::aclnnAvgPool2dBackward(workspace.data(), o.bytes, o.executor, nullptr) != ACLNN_SUCCESS;
                    for (const float v : dx) wrong += v != static_cast<float>(t + 1);
                }
                const bool spent = runs == 1;
                wrong += ac::aclDestroyAclOpExecutor(o.executor) != (spent ? ACLNN_ERR_PARAM_INVALID : ACLNN_SUCCESS);
                // an executor without memory: whoever gets at it is refused, or kills it
                c.grad_input.data = nullptr;
                const outcome s = c.plan();
                c.grad_input.data = dx.data();
                auto* other =
                    reinterpret_cast<ac::aclOpExecutor*>(shared.exchange(reinterpret_cast<std::uintptr_t>(s.executor)));
                if (other == nullptr) continue;
                workspace.resize(4096);
                auto code = ac::aclnnAvgPool2dBackward(workspace.data(), workspace.size(), other, nullptr);
                wrong += code != ACLNN_ERR_PARAM_NULLPTR;
                code = ac::aclDestroyAclOpExecutor(other);
                wrong += code != ACLNN_SUCCESS;
            }
        });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(ac::aclDestroyAclOpExecutor(reinterpret_cast<ac::aclOpExecutor*>(shared.load())), ACLNN_SUCCESS);
}

// One run is all there is, however many ask for it at once.
TEST(aclnn, of_many_runs_at_once_one_is_served) {
    memory_case m;
    for (int i = 0; i < 50; ++i) {
        const outcome o = m.c.plan();
        std::atomic<int> served{0};
        std::atomic<int> refused{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                std::vector<std::byte> workspace(o.bytes);
                const auto code = ac::aclnnAvgPool2dBackward(workspace.data(), o.bytes, o.executor, nullptr);
                served += code == ACLNN_SUCCESS;
                refused += code == ACLNN_ERR_PARAM_INVALID;
            });
        }
        for (std::thread& t : threads) t.join();
        EXPECT_EQ(served, 1);
        EXPECT_EQ(refused, 3);
    }
    EXPECT_TRUE(m.dx.equals(m.expected));
}

// Runs its calls after it destroyed the executor they belong to.
struct destroying_executor {
    ac::aclOpExecutor* executor;
    ac::aclnnStatus code = -1;

    void parallel_for(std::ptrdiff_t n, const auto& fn) {
        if (code == -1) code = ac::aclDestroyAclOpExecutor(executor);
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    [[nodiscard]] static std::ptrdiff_t concurrency() { return 2; }
};

// Destroying an executor lets runs under way finish.
TEST(aclnn, an_executor_may_be_destroyed_while_it_runs) {
    memory_case m;
    const outcome o = m.c.plan();
    ASSERT_EQ(ac::aclSetAclOpExecutorRepeatable(o.executor), ACLNN_SUCCESS);
    destroying_executor threads{o.executor};
    gk::executor_ref stream(threads);
    ASSERT_EQ(run(o, &stream), ACLNN_SUCCESS);
    EXPECT_EQ(threads.code, ACLNN_SUCCESS);
    EXPECT_TRUE(m.dx.equals(m.expected));
    EXPECT_EQ(run(o), ACLNN_ERR_PARAM_INVALID);
}

}  // namespace
}  // namespace gradkern_test
