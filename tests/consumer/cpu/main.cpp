// Tells what this CPU lacks of what needs.cpp was compiled for, and of what this file was.
#include <gradkern/cpu.hpp>

#include <cstdio>

extern const gradkern::cpu_features kernels_need;

int main() {
    const char* here = gradkern::missing_cpu_feature();
    const char* kernels = gradkern::missing_cpu_feature(kernels_need);
    std::printf("main lacks %s, kernels lack %s.\n", here == nullptr ? "nothing" : here,
                kernels == nullptr ? "nothing" : kernels);
    return here == nullptr && kernels == nullptr ? 0 : 1;
}
