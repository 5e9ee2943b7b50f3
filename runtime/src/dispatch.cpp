// The C interface: checks what C callers can get wrong, chooses the instruction set once, and hands everything else to its
// functions. Compiled for every CPU of the architecture; includes no header of gradkern but its version.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

#include <gradkern/gradkern.h>

#include "kernels.hpp"
#include "tables.hpp"  // GRADKERN_RUNTIME_TABLES(X): X(table) for each instruction set

#define GRADKERN_RUNTIME_DECLARE(table) extern "C" const gradkern_kernels table;
GRADKERN_RUNTIME_TABLES(GRADKERN_RUNTIME_DECLARE)

struct gradkern_plan {
    const gradkern_kernels* kernels;
    void* plan;
    std::size_t tensors;
};

namespace {

#define GRADKERN_RUNTIME_ADDRESS(table) &table,
const gradkern_kernels* const all_kernels[] = {GRADKERN_RUNTIME_TABLES(GRADKERN_RUNTIME_ADDRESS)};

/// The instruction set in use; null where the environment names one that is not here or that the CPU lacks.
struct choice {
    const gradkern_kernels* kernels = nullptr;
    std::string wanted{};  ///< GRADKERN_ISA

    choice() {
        const char* const forced = std::getenv("GRADKERN_ISA");
        if (forced != nullptr) wanted = forced;
        for (const gradkern_kernels* k : all_kernels) {
            if (k->missing_feature() != nullptr || (!wanted.empty() && wanted != k->name)) continue;
            kernels = k;
            return;
        }
    }
};
const choice& chosen() {
    static const choice once;
    return once;
}

void copy_text(std::string_view from, char* to, std::size_t size) {
    if (to == nullptr || size == 0) return;
    const std::size_t n = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), n);
    to[n] = '\0';
}

/// An error of this file.
gradkern_error make_error(gradkern_code code, std::string_view argument, std::string_view why,
                          std::string_view op = "gradkern") {
    gradkern_error e{};
    e.code = code;
    e.axis = -1;
    copy_text(op, e.op, sizeof e.op);
    copy_text(argument, e.argument, sizeof e.argument);
    copy_text(std::string(op) + ": " + std::string(argument) + ": " + std::string(why), e.message, sizeof e.message);
    return e;
}
/// The error of a tensor with more axes than a gradkern_tensor has, or fewer than none.
gradkern_error make_rank_error(const gradkern_problem& problem, int tensor) {
    static constexpr const char* operators[] = {"convolution",
                                                "convolution_backward_data",
                                                "convolution_backward_weights",
                                                "conv_transpose",
                                                "conv_transpose_backward_data",
                                                "conv_transpose_backward_weights",
                                                "bias_backward",
                                                "avg_pool",
                                                "avg_pool_backward",
                                                "lp_pool",
                                                "lp_pool_backward",
                                                "max_pool",
                                                "max_pool_backward",
                                                "max_pool_backward_from_indices"};
    static_assert(std::size(operators) == GRADKERN_MAX_POOL_BACKWARD_FROM_INDICES + 1);
    const std::int32_t rank = problem.tensors[tensor].rank;
    gradkern_error e =
        make_error(GRADKERN_UNSUPPORTED, "tensors[" + std::to_string(tensor) + "]",
                   "got rank " + std::to_string(rank) + ", expected 0 to 5 (unsupported)", operators[problem.op]);
    copy_text("tensors", e.argument, sizeof e.argument);
    e.axis = tensor;
    e.got = rank;
    e.expected = rank < 0 ? 0 : 5;
    return e;
}
/// Hands an error to a caller whose struct may be older, and returns its code.
int give(const gradkern_error& e, gradkern_error* error, std::size_t size) {
    if (error != nullptr) std::memcpy(error, &e, std::min(size, sizeof e));
    return e.code;
}

/// The caller's problem, whose struct may be older, as this version has it; its error, if any.
gradkern_error read_problem(const gradkern_problem* from, gradkern_problem& to) {
    to = gradkern_problem{};
    if (from == nullptr) return make_error(GRADKERN_NULL_POINTER, "problem", "there is none");
    if (from->size < sizeof(std::size_t) + sizeof(std::int32_t) || from->size > sizeof to)
        return make_error(
            GRADKERN_INVALID_ARGUMENT, "problem",
            "its size is not that of a gradkern_problem that this library knows: gradkern_problem_init sets it");
    std::memcpy(&to, from, from->size);
    if (to.op < 0 || to.op > GRADKERN_MAX_POOL_BACKWARD_FROM_INDICES)
        return make_error(GRADKERN_UNSUPPORTED, "op", "there is no operator of this number");
    for (int i = 0; i < 4; ++i)
        if (to.tensors[i].rank < 0 || to.tensors[i].rank > 5) return make_rank_error(to, i);
    if (chosen().kernels == nullptr)
        return make_error(GRADKERN_UNSUPPORTED, "GRADKERN_ISA",
                          chosen().wanted.empty()
                              ? "the CPU lacks every instruction set of the library"
                              : "the library has no instruction set " + chosen().wanted + ", or the CPU lacks it");
    return {};
}

/// Calls f() and turns what C++ throws (std::bad_alloc) into an error.
template <class F>
int guarded(gradkern_error* error, std::size_t size, const F& f) noexcept {
    try {
        return f();
    } catch (...) {
        gradkern_error e{};
        e.code = GRADKERN_OUT_OF_MEMORY;
        e.axis = -1;
        return give(e, error, size);
    }
}

}  // namespace

extern "C" {

void gradkern_problem_init(gradkern_problem* problem, size_t size, gradkern_operator op) noexcept {
    if (problem == nullptr) return;
    gradkern_problem p{};
    p.size = size;
    p.op = op;
    p.groups = 1;
    std::memcpy(problem, &p, std::min(size, sizeof p));
}

int gradkern_infer(const gradkern_problem* problem, gradkern_tensor* output, gradkern_error* error,
                   size_t error_size) noexcept {
    return guarded(error, error_size, [&] {
        gradkern_problem p;
        gradkern_error e = read_problem(problem, p);
        if (e.code == GRADKERN_OK && output == nullptr)
            e = make_error(GRADKERN_NULL_POINTER, "output", "there is none");
        if (e.code == GRADKERN_OK) chosen().kernels->infer(p, *output, e);
        return give(e, error, error_size);
    });
}

int gradkern_plan_create(const gradkern_problem* problem, gradkern_plan** plan, gradkern_error* error,
                         size_t error_size) noexcept {
    if (plan != nullptr) *plan = nullptr;
    return guarded(error, error_size, [&] {
        gradkern_problem p;
        gradkern_error e = read_problem(problem, p);
        if (e.code == GRADKERN_OK && plan == nullptr) e = make_error(GRADKERN_NULL_POINTER, "plan", "there is none");
        if (e.code != GRADKERN_OK) return give(e, error, error_size);
        const gradkern_kernels* const kernels = chosen().kernels;
        auto made = new gradkern_plan{kernels, nullptr, kernels->tensors[p.op]};
        if (kernels->create(p, &made->plan, e) == GRADKERN_OK)
            *plan = made;
        else
            delete made;
        return give(e, error, error_size);
    });
}

size_t gradkern_plan_workspace_bytes(const gradkern_plan* plan, int64_t workers) noexcept {
    return plan == nullptr ? 0 : plan->kernels->workspace_bytes(plan->plan, workers);
}

int gradkern_plan_run(const gradkern_plan* plan, void* const* tensors, size_t count, void* workspace,
                      size_t workspace_bytes, const gradkern_executor* executor, gradkern_error* error,
                      size_t error_size) noexcept {
    return guarded(error, error_size, [&] {
        if (plan == nullptr) return give(make_error(GRADKERN_NULL_POINTER, "plan", "there is none"), error, error_size);
        if (tensors == nullptr)
            return give(make_error(GRADKERN_NULL_POINTER, "tensors", "there are none"), error, error_size);
        if (count > plan->tensors)
            return give(make_error(GRADKERN_INVALID_ARGUMENT, "tensors", "more than the operator has"), error,
                        error_size);
        void* addresses[4] = {};
        std::copy_n(tensors, count, addresses);
        gradkern_error e{};
        plan->kernels->run(plan->plan, addresses, workspace, workspace_bytes, executor, e);
        return give(e, error, error_size);
    });
}

size_t gradkern_plan_describe(const gradkern_plan* plan, char* text, size_t bytes) noexcept {
    copy_text("", text, bytes);
    if (plan == nullptr) return 0;
    const std::size_t room = text == nullptr || bytes == 0 ? 0 : bytes - 1;
    const std::size_t length = plan->kernels->describe(plan->plan, text, room);
    if (room > 0) text[std::min(length, room)] = '\0';
    return length;
}

void gradkern_plan_destroy(gradkern_plan* plan) noexcept {
    if (plan == nullptr) return;
    plan->kernels->destroy(plan->plan);
    delete plan;
}

const char* gradkern_isa() noexcept {
    try {
        return chosen().kernels == nullptr ? "none" : chosen().kernels->name;
    } catch (...) {
        return "none";
    }
}

size_t gradkern_describe_cpu(char* text, size_t bytes) noexcept {
    try {
        std::string all;
        for (const gradkern_kernels* k : all_kernels) {
            const char* const missing = k->missing_feature();
            all += std::string(k->name) + (k == chosen().kernels ? ": in use"
                                           : missing == nullptr  ? ": available"
                                                                 : ": the CPU lacks ");
            if (missing != nullptr) all += missing;
            all += '\n';
        }
        if (chosen().kernels == nullptr && !chosen().wanted.empty())
            all += "GRADKERN_ISA=" + chosen().wanted + ": not available\n";
        copy_text(all, text, bytes);
        return all.size();
    } catch (...) {
        copy_text("", text, bytes);
        return 0;
    }
}

const char* gradkern_version() noexcept { return GRADKERN_RUNTIME_VERSION; }

}  // extern "C"
