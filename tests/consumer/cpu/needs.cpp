// Compiled for a newer CPU than main.cpp may be, and never run: a constant tells what it needs.
#include <gradkern/cpu.hpp>

extern const gradkern::cpu_features kernels_need;
const gradkern::cpu_features kernels_need = gradkern::needed_cpu_features;
