// A program that prints which instruction set the CPU lacks, if it cannot run the kernels.
#include <iostream>

#include <gradkern/cpu.hpp>

static int run() {
    std::cout << "this CPU has all that is needed\n";
    return 0;
}

int main() {
    // [missing]
    if (const char* missing = gradkern::missing_cpu_feature()) {
        std::cerr << "this program needs a CPU with " << missing << '\n';
        return 1;
    }
    // [/missing]
    return run();
}
