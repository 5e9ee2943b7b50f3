#include <cstring>
#include <iostream>
#include <stdexcept>

#include "older.hpp"

#if __cplusplus >= 201703L
#error "this file is C++14"
#endif

int main() {
    const std::vector<float> got = older::mean_gradient({4, 8, 12, 16}, 1, 2, 2);
    const std::vector<float> wanted{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
    if (got != wanted) {
        std::cerr << "other numbers\n";
        return 1;
    }
    try {
        older::mean_gradient({1, 2, 3, 4}, 1, -2, -2);
    } catch (const std::invalid_argument& e) {
        return std::strstr(e.what(), "avg_pool_backward") == nullptr;
    }
    std::cerr << "no error\n";
    return 1;
}
