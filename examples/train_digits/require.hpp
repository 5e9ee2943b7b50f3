// gradkern reports errors as values. This program cannot continue with an incomplete network, so it throws them.
#pragma once

#include <stdexcept>
#include <utility>

#include <gradkern/error_text.hpp>
#include <gradkern/status.hpp>

namespace digits {

inline void require(const gradkern::status& status) {
    if (!status) throw std::runtime_error(gradkern::to_string(status.error()));
}

template <class Value>
Value require(gradkern::result<Value> result) {
    if (!result) throw std::runtime_error(gradkern::to_string(result.error()));
    return std::move(*result);
}

}  // namespace digits
