// Between the two languages: C++14, and no type of gradkern.
#pragma once

namespace older {

/// False on an error, which is written to `text` (of `size` characters).
bool mean_gradient(const float* gradient, float* result, long channels, long height, long width, char* text,
                   unsigned size);

}  // namespace older
