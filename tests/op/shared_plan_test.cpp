// One plan, used by several threads: the same bits when they run it at the same time, with every number and order of workers,
// and with every size of workspace between that of one worker and that of all. ThreadSanitizer runs these tests, too
// (`cmake --workflow --preset tsan`).

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

constexpr std::ptrdiff_t most_workers = 7;

// ----------------------------------------------------------------------------------------------------- what is checked

/// A planned operator with its inputs. Each run has its own outputs.
struct problem {
    std::string name{};
    std::vector<std::vector<unsigned char>> before{};  ///< the bytes of each output before a run
    std::function<std::size_t(std::ptrdiff_t)> workspace_bytes{};
    std::function<gk::status(std::span<void* const> outputs, std::span<std::byte>, gk::executor_ref)> run{};
};

/// One run, with its own outputs and workspace in guarded memory. The workspace ends at a guard page.
class attempt {
public:
    attempt(const problem& p, std::size_t workspace_bytes) : problem_(&p), workspace_(workspace_bytes) {
        outputs_.reserve(p.before.size());
        for (const auto& bytes : p.before) {
            outputs_.emplace_back(bytes.size());
            std::memcpy(outputs_.back().data(), bytes.data(), bytes.size());
            addresses_.push_back(outputs_.back().data());
        }
    }
    /// May be called on any thread.
    void run(gk::executor_ref executor) {
        status_ = problem_->run(addresses_, {workspace_.data(), workspace_.size()}, executor);
    }
    /// Whether the run went well, wrote nothing but outputs and workspace, and gave these bits.
    [[nodiscard]] ::testing::AssertionResult gave(const attempt& expected) const {
        if (!status_.has_value()) return ::testing::AssertionFailure() << "was not run";
        if (!status_->ok()) return ::testing::AssertionFailure() << gk::to_string(*status_);
        if (auto zones = workspace_.zones_intact(); !zones) return zones << ", the workspace";
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            if (auto zones = outputs_[i].zones_intact(); !zones) return zones << ", output " << i;
            if (std::memcmp(outputs_[i].data(), expected.outputs_[i].data(), outputs_[i].size()) != 0)
                return ::testing::AssertionFailure() << "other bits in output " << i;
        }
        return ::testing::AssertionSuccess();
    }

private:
    const problem* problem_;
    guarded_bytes workspace_;
    std::vector<guarded_bytes> outputs_;
    std::vector<void*> addresses_;
    std::optional<gk::status> status_;
};

attempt plain_run(const problem& p) {
    attempt plain(p, p.workspace_bytes(1));
    plain.run({});
    EXPECT_TRUE(plain.gave(plain));
    return plain;
}

/// Workspace sizes from that of one worker to that of all: around each size at which one more worker fits, and around each
/// that the plan reports; if all workers need little, also every 64 bytes.
std::set<std::size_t> workspace_sizes(const problem& p) {
    const std::size_t least = p.workspace_bytes(1);
    const std::size_t most = p.workspace_bytes(most_workers);
    const std::size_t slice = p.workspace_bytes(2) - least;  // a multiple of 64
    std::set<std::size_t> sizes{least, most};
    const auto around = [&](std::size_t size) {
        for (const std::size_t s : {size - 1, size, size + 1})
            if (s > least && s < most) sizes.insert(s);
    };
    for (std::ptrdiff_t workers = 1; workers <= most_workers; ++workers) {
        around(static_cast<std::size_t>(workers) * slice);  // all that the workers need, in memory that ends at a page
        around(p.workspace_bytes(workers));
    }
    if (most - least <= std::size_t{40} * 64)
        for (std::size_t s = least; s < most; s += 64) sizes.insert(s);
    return sizes;
}

// -------------------------------------------------------------------------------------------------------- the operators

using visitor = std::function<void(const problem&)>;

template <class T>
constexpr std::string_view type_name = std::is_same_v<T, float> ? "f32" : "bf16";

template <class T>
[[nodiscard]] std::string describe(std::string_view row, gk::data_format format, const gk::plan_options& options) {
    std::ostringstream out;
    out << row << ' ' << (format == gk::data_format::ncx ? "NCX " : "NXC ")
        << type_name<T> << (options.output == gk::output_mode::accumulate ? " accumulate" : "") << " algorithm "
        << static_cast<int>(options.algorithm);
    return out.str();
}

/// Calls f.operator()<T>(format, options) for both layouts, f32 and bf16, both output modes and these algorithms.
template <class F>
void for_each_variant(const std::vector<gk::algorithm>& algorithms, const F& f) {
    for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc})
        for (const gk::output_mode mode : {gk::output_mode::overwrite, gk::output_mode::accumulate})
            for (const gk::algorithm how : algorithms) {
                const gk::plan_options options{.output = mode, .algorithm = how};
                f.template operator()<float>(format, options);
                f.template operator()<gk::bfloat16>(format, options);
            }
}

template <class T>
void visit_convolution(const conv_row& row, std::string_view name, gk::data_format format,
                       const gk::plan_options& options, const visitor& visit) {
    random_source random("shared_plan.convolution");
    const gk::weights_format filters =
        format == gk::data_format::ncx ? gk::weights_format::oix : gk::weights_format::xio;
    const conv_case c = make_case(row, format, filters);
    conv_tensors<T> tensors(random, c, false);
    tensors.has_bias = c.takes_bias();
    tensors.mode = options.output;
    tensors.fill_reals(random);
    test_tensor<T> out(c.result());
    tensors.prepare(out);
    const planned plan = tensors.plan(c, out, options.algorithm);
    if (refuses_algorithm(plan.status)) return;
    ASSERT_TRUE(plan.status.ok()) << gk::to_string(plan.status);
    visit({describe<T>(name, format, options),
           {out.snapshot()},
           plan.workspace_bytes,
           [&](std::span<void* const> outputs, std::span<std::byte> workspace, gk::executor_ref executor) {
               return plan.run_into(outputs[0], workspace, executor);
           }});
}

template <conv_operator Op>
void visit_convolutions(const visitor& visit) {
    using gk::algorithm;
    // several sums of 32 chunks of positions; several blocks of channels and panels; lanes across groups
    const conv_row grouped{Op, 1, 11, 3, 2, {95, 91}, 3, 1, 1, 1};  // two panels of AVX-512
    const conv_row wide{Op, 2, 4, 66, 20, {9, 11}, 3, 2, 1, 1};
    const conv_row depthwise{Op, 2, 117, 1, 1, {20, 31}, 3, 1, 1, 1};
    for_each_variant({algorithm::dense, algorithm::dense_packed},
                     [&]<class T>(gk::data_format format, const gk::plan_options& options) {
                         visit_convolution<T>(grouped, "grouped", format, options, visit);
                         visit_convolution<T>(wide, "wide", format, options, visit);
                     });
    for_each_variant({algorithm::depthwise, algorithm::depthwise_sliding, algorithm::narrow_output},
                     [&]<class T>(gk::data_format format, const gk::plan_options& options) {
                         visit_convolution<T>(depthwise, "depthwise", format, options, visit);
                     });
}

/// A pool over planes of two axes, or the bias gradient of its src.
struct pool_row {
    std::string_view name;
    std::int64_t n, channels;
    gk::extents space;  // of src
    std::int64_t kernel = 1, stride = 1, pad = 0;

    [[nodiscard]] gk::extents src(gk::data_format f) const { return activation(f, n, channels, space); }
    template <class Attributes>
    [[nodiscard]] Attributes attributes(gk::data_format f) const {
        const auto both = [](std::int64_t v) { return gk::extents{v, v}; };
        return {.kernel = both(kernel),
                .strides = both(stride),
                .pads_begin = both(pad),
                .pads_end = both(pad),
                .data_format = f};
    }
};

const std::array average_rows{
    pool_row{"planes", 7, 17, {43, 51}, 3, 1, 1},
    pool_row{"long lines", 7, 18, {3, 601}, 3, 1, 1},
    pool_row{"few columns", 36, 70, {40, 7}, 2, 2, 0},
};
const std::array maximum_rows{
    pool_row{"images", 3, 70, {13, 19}, 3, 2, 1},
    pool_row{"boxes", 1, 33, {68, 64}, 3, 1, 1},
};
const std::array scatter_rows{
    pool_row{"planes", 7, 20, {12, 13}, 3, 2, 1},
};
const std::array bias_rows{
    pool_row{"channels", 3, 117, {37, 90}},  // two levels of sums
};

template <class T>
[[nodiscard]] test_tensor<T> random_tensor(random_source& random, const gk::extents& shape) {
    test_tensor<T> t(shape);
    t.fill_random(random);
    return t;
}

/// The bytes of an output before a run: NaN where it is overwritten.
template <class T>
[[nodiscard]] std::vector<unsigned char> output_before(random_source& random, const gk::extents& shape,
                                                       const gk::plan_options& options) {
    return (options.output == gk::output_mode::accumulate ? random_tensor<T>(random, shape) : test_tensor<T>(shape))
        .snapshot();
}

/// Visits a plan whose run(plan, output addresses, workspace, executor) needs inputs that outlive this call.
template <class Plan, class Run>
void visit_plan(const visitor& visit, std::string name, const gk::result<Plan>& plan,
                std::vector<std::vector<unsigned char>> before, const Run& run) {
    ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
    visit({std::move(name), std::move(before), [&](std::ptrdiff_t workers) { return plan->workspace_bytes(workers); },
           [&](std::span<void* const> outputs, std::span<std::byte> workspace, gk::executor_ref executor) {
               return run(*plan, outputs, workspace, executor);
           }});
}

void visit_avg_pool(const visitor& visit) {
    for (const pool_row& row : average_rows)
        for_each_variant({gk::algorithm::automatic}, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.avg_pool");
            const auto a = row.attributes<gk::avg_pool_attributes>(f);
            const auto src = random_tensor<T>(random, row.src(f));
            const gk::extents dst = *gk::infer_avg_pool(row.src(f), a);
            visit_plan(visit, describe<T>(row.name, f, options), gk::plan_avg_pool<T>(src.layout(), a, dst, options),
                       {output_before<T>(random, dst, options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(src.data(), static_cast<T*>(to[0]), workspace, executor);
                       });
        });
}

void visit_avg_pool_backward(const visitor& visit) {
    for (const pool_row& row : average_rows)
        for_each_variant({gk::algorithm::automatic}, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.avg_pool_backward");
            auto a = row.attributes<gk::avg_pool_attributes>(f);
            a.exclude_pad = true;  // different divisors for windows at the borders
            const auto diff_dst = random_tensor<T>(random, *gk::infer_avg_pool(row.src(f), a));
            visit_plan(visit, describe<T>(row.name, f, options),
                       gk::plan_avg_pool_backward<T>(diff_dst.layout(), a, row.src(f), options),
                       {output_before<T>(random, row.src(f), options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(diff_dst.data(), static_cast<T*>(to[0]), workspace, executor);
                       });
        });
}

constexpr auto lp_pool_algorithms = {gk::algorithm::automatic, gk::algorithm::windows_packed};

void visit_lp_pool(const visitor& visit) {
    for (const pool_row& row : maximum_rows)
        for_each_variant(lp_pool_algorithms, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.lp_pool");
            const auto a = row.attributes<gk::lp_pool_attributes>(f);
            const auto src = random_tensor<T>(random, row.src(f));
            const gk::extents dst = *gk::infer_lp_pool(row.src(f), a);
            visit_plan(visit, describe<T>(row.name, f, options), gk::plan_lp_pool<T>(src.layout(), a, dst, options),
                       {output_before<T>(random, dst, options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(src.data(), static_cast<T*>(to[0]), workspace, executor);
                       });
        });
}

void visit_lp_pool_backward(const visitor& visit) {
    for (const pool_row& row : maximum_rows)
        for_each_variant(lp_pool_algorithms, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.lp_pool_backward");
            const auto a = row.attributes<gk::lp_pool_attributes>(f);
            const auto src = random_tensor<T>(random, row.src(f));
            const auto dst = random_tensor<T>(random, *gk::infer_lp_pool(row.src(f), a));
            const auto diff_dst = random_tensor<T>(random, dst.shape());
            visit_plan(visit, describe<T>(row.name, f, options),
                       gk::plan_lp_pool_backward<T>(src.layout(), dst.layout(), diff_dst.layout(), a, {}, options),
                       {output_before<T>(random, row.src(f), options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(src.data(), dst.data(), diff_dst.data(), static_cast<T*>(to[0]), workspace,
                                           executor);
                       });
        });
}

constexpr auto max_pool_algorithms = {gk::algorithm::automatic, gk::algorithm::windows_packed,
                                      gk::algorithm::windows_strided};
constexpr auto max_pool_backward_algorithms = {gk::algorithm::automatic, gk::algorithm::scatter_form_packed,
                                               gk::algorithm::scatter_form_strided};

void visit_max_pool(const visitor& visit) {
    for (const pool_row& row : maximum_rows)
        for_each_variant(max_pool_algorithms, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.max_pool");
            const auto a = row.attributes<gk::max_pool_attributes>(f);
            const auto src = random_tensor<T>(random, row.src(f));
            const gk::extents dst = *gk::infer_max_pool(row.src(f), a);
            auto dst_before = output_before<T>(random, dst, options);
            std::vector<unsigned char> indices_before(dst_before.size() / sizeof(T) * sizeof(std::int64_t),
                                                      poison_byte);
            visit_plan(visit, describe<T>(row.name, f, options),
                       gk::plan_max_pool<T>(src.layout(), a, dst, dst, options),
                       {std::move(dst_before), std::move(indices_before)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(src.data(), static_cast<T*>(to[0]), static_cast<std::int64_t*>(to[1]),
                                           workspace, executor);
                       });
        });
}

void visit_max_pool_backward(const visitor& visit) {
    for (const pool_row& row : maximum_rows)
        for_each_variant(max_pool_backward_algorithms, [&]<class T>(gk::data_format f,
                                                                    const gk::plan_options& options) {
            random_source random("shared_plan.max_pool_backward");
            const auto a = row.attributes<gk::max_pool_attributes>(f);
            const auto src = random_tensor<T>(random, row.src(f));
            const auto diff_dst = random_tensor<T>(random, *gk::infer_max_pool(row.src(f), a));
            visit_plan(visit, describe<T>(row.name, f, options),
                       gk::plan_max_pool_backward<T>(src.layout(), diff_dst.layout(), a, {}, options),
                       {output_before<T>(random, row.src(f), options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(src.data(), diff_dst.data(), static_cast<T*>(to[0]), workspace, executor);
                       });
        });
}

void visit_max_pool_backward_from_indices(const visitor& visit) {
    for (const pool_row& row : scatter_rows)
        for (const bool own_plane : {true, false})
            for_each_variant(
                {gk::algorithm::automatic}, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
                    random_source random("shared_plan.max_pool_backward_from_indices");
                    const auto a = row.attributes<gk::max_pool_attributes>(f);
                    const auto src = random_tensor<T>(random, row.src(f));
                    const test_tensor<T> dst(*gk::infer_max_pool(row.src(f), a));
                    const auto diff_dst = random_tensor<T>(random, dst.shape());
                    std::vector<std::int64_t> indices(static_cast<std::size_t>(dst.count()));
                    if (own_plane) {
                        const auto forward = gk::plan_max_pool<T>(src.layout(), a, dst.layout(), dst.shape());
                        ASSERT_TRUE(forward.has_value());
                        std::vector<std::byte> workspace(forward->workspace_bytes());
                        ASSERT_TRUE(forward->run(src.data(), dst.data(), indices.data(), workspace).ok());
                    } else {
                        for (std::int64_t& i : indices) i = random.integer(-1, src.count() - 1);
                    }
                    visit_plan(visit, describe<T>(row.name, f, options) + (own_plane ? "" : ", indices of any plane"),
                               gk::plan_max_pool_backward_from_indices<T>(diff_dst.layout(), dst.shape(),
                                                                          {.data_format = f}, row.src(f), options),
                               {output_before<T>(random, row.src(f), options)},
                               [&](const auto& plan, auto to, auto workspace, auto executor) {
                                   return plan.run(diff_dst.data(), indices.data(), static_cast<T*>(to[0]), workspace,
                                                   executor);
                               });
                });
}

void visit_bias_backward(const visitor& visit) {
    for (const pool_row& row : bias_rows)
        for_each_variant({gk::algorithm::automatic}, [&]<class T>(gk::data_format f, const gk::plan_options& options) {
            random_source random("shared_plan.bias_backward");
            const auto diff_dst = random_tensor<T>(random, row.src(f));
            const gk::extents diff_bias{row.channels};
            visit_plan(visit, describe<T>(row.name, f, options),
                       gk::plan_bias_backward<T, T>(diff_dst.layout(), {.data_format = f}, diff_bias, options),
                       {output_before<T>(random, diff_bias, options)},
                       [&](const auto& plan, auto to, auto workspace, auto executor) {
                           return plan.run(diff_dst.data(), static_cast<T*>(to[0]), workspace, executor);
                       });
        });
}

// ------------------------------------------------------------------------------------------------------------ the tests

struct named_operator {
    std::string_view name;
    void (*for_each_problem)(const visitor&);
    friend void PrintTo(const named_operator& o, std::ostream* out) { *out << o.name; }
};
class shared_plan : public ::testing::TestWithParam<named_operator> {
protected:
    /// Calls check(problem, its plain run) for all problems of the operator.
    template <class Check>
    static void for_each_problem(const Check& check) {
        GetParam().for_each_problem([&](const problem& p) {
            SCOPED_TRACE(p.name);
            // Two workers have smaller tasks, whose scratch may fit that of one.
            EXPECT_GE(p.workspace_bytes(2), p.workspace_bytes(1));
            check(p, plain_run(p));
        });
    }
};
INSTANTIATE_TEST_SUITE_P(
    all, shared_plan,
    ::testing::Values(
        named_operator{"convolution", visit_convolutions<conv_operator::convolution>},
        named_operator{"convolution_backward_data", visit_convolutions<conv_operator::convolution_backward_data>},
        named_operator{"convolution_backward_weights", visit_convolutions<conv_operator::convolution_backward_weights>},
        named_operator{"conv_transpose", visit_convolutions<conv_operator::conv_transpose>},
        named_operator{"conv_transpose_backward_data", visit_convolutions<conv_operator::conv_transpose_backward_data>},
        named_operator{"conv_transpose_backward_weights",
                       visit_convolutions<conv_operator::conv_transpose_backward_weights>},
        named_operator{"avg_pool", visit_avg_pool}, named_operator{"avg_pool_backward", visit_avg_pool_backward},
        named_operator{"lp_pool", visit_lp_pool}, named_operator{"lp_pool_backward", visit_lp_pool_backward},
        named_operator{"max_pool", visit_max_pool}, named_operator{"max_pool_backward", visit_max_pool_backward},
        named_operator{"max_pool_backward_from_indices", visit_max_pool_backward_from_indices},
        named_operator{"bias_backward", visit_bias_backward}),
    [](const auto& param) { return std::string(param.param.name); });

/// Two serial runs and two that compete for one pool, all at the same time.
TEST_P(shared_plan, threads_run_it_at_the_same_time) {
    gk::thread_pool pool(3);
    for_each_problem([&](const problem& p, const attempt& plain) {
        std::vector<attempt> attempts;
        for (const std::ptrdiff_t workers : {1, 1, 3, 3}) attempts.emplace_back(p, p.workspace_bytes(workers));
        std::latch all_here(static_cast<std::ptrdiff_t>(attempts.size()));
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < attempts.size(); ++i)
            threads.emplace_back([&, i] {
                all_here.arrive_and_wait();
                attempts[i].run(i < 2 ? gk::executor_ref() : gk::executor_ref(pool));
            });
        for (std::thread& t : threads) t.join();
        for (const attempt& a : attempts) EXPECT_TRUE(a.gave(plain));
    });
}

TEST_P(shared_plan, workers_run_in_any_order) {
    for_each_problem([](const problem& p, const attempt& plain) {
        for (const std::ptrdiff_t workers : {std::ptrdiff_t{1}, std::ptrdiff_t{2}, std::ptrdiff_t{3}, most_workers}) {
            shuffling_executor shuffled(workers);
            reversing_executor reversed(workers);
            thread_executor threads(workers);
            for (const gk::executor_ref executor :
                 {gk::executor_ref(shuffled), gk::executor_ref(reversed), gk::executor_ref(threads)}) {
                attempt a(p, p.workspace_bytes(workers));
                a.run(executor);
                EXPECT_TRUE(a.gave(plain)) << workers << " workers";
            }
        }
    });
}

TEST_P(shared_plan, every_size_of_workspace) {
    thread_executor threads(most_workers);
    for_each_problem([&](const problem& p, const attempt& plain) {
        for (const std::size_t size : workspace_sizes(p)) {
            attempt a(p, size);
            a.run(threads);
            EXPECT_TRUE(a.gave(plain)) << size << " bytes";
        }
    });
}

}  // namespace
}  // namespace gradkern_test
