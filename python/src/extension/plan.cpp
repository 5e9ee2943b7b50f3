#include "plan.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/runtime.hpp>

namespace gradkern_python {
namespace {

constexpr std::int64_t most_workers = 1024;

/// The threads of all calls: a pool for each number of workers, made when it is first asked for. Never destroyed, since threads
/// may run when the process ends.
struct pools {
    std::mutex mutex{};
    std::map<std::int64_t, std::unique_ptr<gradkern::thread_pool>> of{};

    [[nodiscard]] gradkern::thread_pool& get(std::int64_t workers) {
        const std::lock_guard lock(mutex);
        auto& pool = of[workers];
        if (!pool) pool = std::make_unique<gradkern::thread_pool>(workers);
        return *pool;
    }
};
pools* all_pools = new pools;

[[nodiscard]] std::int64_t checked(const operator_facts& op, std::int64_t workers) {
    if (workers == 0) return gradkern::thread_pool::hardware_threads();
    if (workers < 0 || workers > most_workers)
        throw mistake(std::string(op.name) + ": workers: got " + std::to_string(workers) +
                      ", expected 0 (all of the machine) to " + std::to_string(most_workers));
    return workers;
}

/// The text that a function of the C interface writes.
template <class F>
[[nodiscard]] std::string text_of(const F& write) {
    std::string text(write(nullptr, std::size_t{0}) + 1, '\0');
    write(text.data(), text.size());
    text.pop_back();
    return text;
}

}  // namespace

plan::plan(const problem& p, const tensors& layouts) : facts_(&p.facts()) {
    for (const auto& t : layouts)
        layouts_.push_back(t ? std::optional<tensor>(t->without_memory()) : std::optional<tensor>());
    gradkern_error error{};
    gradkern_plan* made = nullptr;
    gradkern_plan_create(&p.get(), &made, &error, sizeof error);
    plan_.reset(made);
    require(error);
}

std::size_t plan::workspace_bytes(std::int64_t workers) const {
    return gradkern_plan_workspace_bytes(plan_.get(), checked(*facts_, workers));
}

std::string plan::describe() const {
    return text_of([&](char* to, std::size_t bytes) { return gradkern_plan_describe(plan_.get(), to, bytes); });
}

gradkern::workspace plan::take(std::size_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        for (; !spare_.empty(); spare_.pop_back())
            if (spare_.back().size() >= bytes) {
                gradkern::workspace w = std::move(spare_.back());
                spare_.pop_back();
                return w;
            }
    }
    return gradkern::workspace(bytes);
}

void plan::give_back(gradkern::workspace&& w) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(w));
}

void plan::run(const tensors& with, std::int64_t workers) {
    std::array<void*, 4> addresses{};
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
        const std::optional<tensor> none;
        const auto& got = i < with.size() ? with[i] : none;
        const auto& planned = layouts_[i];
        if (got.has_value() != planned.has_value() || (got && !got->is_like(*planned)))
            throw mistake(std::string(facts_->name) + ": " + std::string(facts_->tensors[i]) + ": got " +
                          (got ? got->text() : "none") + ", planned for " + (planned ? planned->text() : "none") +
                          (got && planned && got->text() == planned->text() ? " with other strides" : ""));
        if (got) addresses[i] = got->data();
    }
    const std::int64_t count = checked(*facts_, workers);
    gradkern_error error{};
    {
        const nb::gil_scoped_release released;
        gradkern::workspace scratch = take(gradkern_plan_workspace_bytes(plan_.get(), count));
        if (!scratch) throw std::bad_alloc();
        const auto run = [&](const gradkern_executor* executor) {
            gradkern_plan_run(plan_.get(), addresses.data(), layouts_.size(), scratch.data(), scratch.size(), executor,
                              &error, sizeof error);
        };
        if (count == 1) {
            run(nullptr);
        } else {
            const gradkern::runtime::executor_of threads(all_pools->get(count));
            run(threads.get());
        }
        give_back(std::move(scratch));
    }
    require(error);
}

void bind_plan(nb::module_& m) {
    nb::class_<plan>(m, "Plan", "A problem that is checked and planned.")
        .def(nb::init<const problem&, const tensors&>(), nb::arg("problem"), nb::arg("tensors"))
        .def("workspace_bytes", &plan::workspace_bytes, nb::arg("workers") = 1,
             "Bytes of scratch memory that so many workers use.")
        .def("describe", &plan::describe, "One line about path, blocks and instruction set.")
        .def("run", &plan::run, nb::arg("tensors"), nb::arg("workers") = 1,
             "Computes, without the interpreter's lock.");
    m.def("isa", &gradkern_isa, "The instruction set in use, such as x86-64-v3.");
    m.def(
        "describe_cpu",
        [] { return text_of([](char* to, std::size_t bytes) { return gradkern_describe_cpu(to, bytes); }); },
        "Each instruction set of the library, a line each, and what the CPU lacks for it.");
    m.def("version", &gradkern_version, "The library's version.");
    m.def(
        "forget_threads", [] { all_pools = new pools; },
        "In a child process after a fork, which has none of its parent's threads.");
}

}  // namespace gradkern_python
