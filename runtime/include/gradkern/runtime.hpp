/// \file
/// \brief The C interface in C++17: plans that free themselves, and executors from objects.
///
///     gradkern::runtime::problem p(GRADKERN_MAX_POOL);
///     p.tensor(0, GRADKERN_F32, {1, 28, 28, 64}).window({2, 2}, {2, 2}, {0, 0}, {0, 0});
///     gradkern_error error;
///     const gradkern::runtime::plan plan(p, error);
///     if (!plan) return error.message;
///     std::vector<unsigned char> workspace(plan.workspace_bytes());
///     error = plan.run({src, dst, nullptr}, workspace.data(), workspace.size());
///
/// It needs the header gradkern.h and the library, not gradkern's other headers, nor C++20. Nothing here throws but what the
/// standard library throws.
#ifndef GRADKERN_RUNTIME_HPP
#define GRADKERN_RUNTIME_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include <gradkern/gradkern.h>

namespace gradkern {
namespace runtime {

/// A problem with default attributes. Its members are those of gradkern_problem; the functions set several at once.
class problem : public gradkern_problem {
public:
    /// Of this operator.
    explicit problem(gradkern_operator o) noexcept { gradkern_problem_init(this, sizeof(gradkern_problem), o); }

    /// Tensor number i of the operator, dense.
    problem& tensor(std::size_t i, gradkern_type type, std::initializer_list<std::int64_t> shape) noexcept {
        tensors[i] = gradkern_dense(type, static_cast<int>(shape.size() < 6 ? shape.size() : 6), shape.begin());
        return *this;
    }
    /// Tensor number i with strides in elements.
    problem& tensor(std::size_t i, gradkern_type type, std::initializer_list<std::int64_t> shape,
                    std::initializer_list<std::int64_t> steps) noexcept {
        tensor(i, type, shape);
        tensors[i].has_strides = 1;
        for (std::size_t k = 0; k < steps.size() && k < 5; ++k) tensors[i].strides[k] = steps.begin()[k];
        return *this;
    }
    /// Kernel (of pools), strides and pads; dilations of 1 where none are given.
    problem& window(std::initializer_list<std::int64_t> kernel_sizes, std::initializer_list<std::int64_t> steps,
                    std::initializer_list<std::int64_t> begin, std::initializer_list<std::int64_t> end,
                    std::initializer_list<std::int64_t> dilation = {}) noexcept {
        kernel = list(kernel_sizes);
        strides = list(steps);
        pads_begin = list(begin);
        pads_end = list(end);
        dilations = list(dilation);
        if (dilation.size() == 0) {
            dilations = strides;
            for (std::int64_t& d : dilations.values) d = 1;
        }
        return *this;
    }
    /// A list of up to three numbers.
    [[nodiscard]] static gradkern_list list(std::initializer_list<std::int64_t> values) noexcept {
        gradkern_list l = gradkern_list_of(static_cast<int>(values.size() < 3 ? values.size() : 3), values.begin());
        l.count = static_cast<std::int64_t>(values.size());
        return l;
    }
};

/// An executor of the C interface from an object with parallel_for(n, f) and concurrency(), such as gradkern's thread_pool. The
/// object must outlive it.
template <class Executor>
class executor_of {
public:
    /// Refers to `executor`.
    explicit executor_of(Executor& executor) noexcept
        : c_{&executor, static_cast<std::int64_t>(executor.concurrency()), call} {}
    /// For gradkern_plan_run.
    [[nodiscard]] const gradkern_executor* get() const noexcept { return &c_; }

private:
    static void call(void* context, std::int64_t n, void (*fn)(void*, std::int64_t), void* data) {
        static_cast<Executor*>(context)->parallel_for(
            static_cast<std::ptrdiff_t>(n), [fn, data](std::ptrdiff_t i) { fn(data, static_cast<std::int64_t>(i)); });
    }
    gradkern_executor c_;
};

/// A plan, which frees itself. Any number of threads may run it at the same time.
class plan {
public:
    /// None.
    plan() noexcept = default;
    /// Plans a problem; on failure the plan is empty, and `error` says why.
    plan(const gradkern_problem& p, gradkern_error& error) noexcept {
        gradkern_plan_create(&p, &plan_, &error, sizeof error);
    }
    /// Takes the plan of `other`, which is empty then.
    plan(plan&& other) noexcept : plan_(std::exchange(other.plan_, nullptr)) {}
    /// Exchanges the plans.
    plan& operator=(plan&& other) noexcept {
        std::swap(plan_, other.plan_);
        return *this;
    }
    plan(const plan&) = delete;
    plan& operator=(const plan&) = delete;
    ~plan() { gradkern_plan_destroy(plan_); }

    /// Whether there is one.
    [[nodiscard]] explicit operator bool() const noexcept { return plan_ != nullptr; }
    /// For the functions of gradkern.h; null if there is none.
    [[nodiscard]] const gradkern_plan* get() const noexcept { return plan_; }
    /// Bytes of workspace for so many workers.
    [[nodiscard]] std::size_t workspace_bytes(std::int64_t workers = 1) const noexcept {
        return gradkern_plan_workspace_bytes(plan_, workers);
    }
    /// Runs with the addresses of the tensors, in the order of the operator. The code of the result is GRADKERN_OK on success.
    [[nodiscard]] gradkern_error run(std::initializer_list<const void*> tensors, void* workspace = nullptr,
                                     std::size_t bytes = 0,
                                     const gradkern_executor* executor = nullptr) const noexcept {
        gradkern_error error{};
        gradkern_plan_run(plan_, const_cast<void* const*>(tensors.begin()), tensors.size(), workspace, bytes, executor,
                          &error, sizeof error);
        return error;
    }
    /// One line about path, blocks and instruction set.
    [[nodiscard]] std::string describe() const {
        std::string text(gradkern_plan_describe(plan_, nullptr, 0) + 1, '\0');
        gradkern_plan_describe(plan_, &text[0], text.size());
        text.pop_back();
        return text;
    }

private:
    gradkern_plan* plan_ = nullptr;
};

}  // namespace runtime
}  // namespace gradkern

#endif  // GRADKERN_RUNTIME_HPP
