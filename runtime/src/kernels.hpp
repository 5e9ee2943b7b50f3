// What the objects of one instruction set offer to the dispatcher. This header is compiled for several: it defines nothing but types
// of plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/gradkern.h>

/// The functions of one instruction set.
struct gradkern_kernels {
    const char* name;  ///< such as x86-64-v3
    /// What the CPU lacks; null where it can run them. Runs on every CPU of the architecture.
    const char* (*missing_feature)();
    int (*create)(const gradkern_problem& problem, void** plan, gradkern_error& error);
    int (*infer)(const gradkern_problem& problem, gradkern_tensor& output, gradkern_error& error);
    std::size_t (*workspace_bytes)(const void* plan, std::int64_t workers);
    int (*run)(const void* plan, void* const* tensors, void* workspace, std::size_t bytes,
               const gradkern_executor* executor, gradkern_error& error);
    std::size_t (*describe)(const void* plan, char* text, std::size_t bytes);
    void (*destroy)(void* plan);
    std::size_t tensors[14];  ///< of each operator
};
