// Errors as std::string and on streams. Include it explicitly: it may allocate, and throws what allocation and streams throw.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include <gradkern/detail/config.hpp>
#include <gradkern/status.hpp>

GRADKERN_NAMESPACE_BEGIN

/// The one-line message of error::format.
[[nodiscard]] GRADKERN_PER_ISA inline std::string to_string(const error& e) {
    std::string text(e.format({}), '\0');
    static_cast<void>(e.format(std::span<char>(text.data(), text.size())));
    return text;
}

/// The message of the status' error, or "ok".
[[nodiscard]] GRADKERN_PER_ISA inline std::string to_string(const status& s) { return to_string(s.error()); }

/// Writes the one-line message of error::format.
GRADKERN_PER_ISA inline std::ostream& operator<<(std::ostream& out, const error& e) { return out << to_string(e); }

/// Writes the message of the status' error, or "ok".
GRADKERN_PER_ISA inline std::ostream& operator<<(std::ostream& out, const status& s) { return out << to_string(s); }

GRADKERN_NAMESPACE_END
