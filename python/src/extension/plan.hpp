// Plans of the compiled library, their workspaces, and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gradkern/gradkern.h>
#include <gradkern/workspace.hpp>

#include "problem.hpp"

namespace gradkern_python {

/// An operator whose problem is checked and planned. Keeps the workspaces of calls that are done for those that follow.
class plan {
public:
    plan(const problem& p, const tensors& layouts);

    [[nodiscard]] std::size_t workspace_bytes(std::int64_t workers) const;
    [[nodiscard]] std::string describe() const;
    /// Runs without the interpreter's lock.
    void run(const tensors& with, std::int64_t workers);

private:
    [[nodiscard]] gradkern::workspace take(std::size_t bytes);
    void give_back(gradkern::workspace&& w);

    const operator_facts* facts_;
    tensors layouts_;
    std::unique_ptr<gradkern_plan, decltype(&gradkern_plan_destroy)> plan_{nullptr, gradkern_plan_destroy};
    std::mutex mutex_{};
    std::vector<gradkern::workspace> spare_{};
};

void bind_plan(nb::module_& m);

}  // namespace gradkern_python
