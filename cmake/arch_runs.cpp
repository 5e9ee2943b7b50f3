// Ends with 0 where the machine has what the compiler was told to use.
#if defined(__x86_64__) || defined(__i386__)
#define GRADKERN_NEEDS(feature) \
    if (!__builtin_cpu_supports(feature)) return 1
#endif

int main() {
#ifdef GRADKERN_NEEDS
    __builtin_cpu_init();
#ifdef __SSE4_2__
    GRADKERN_NEEDS("sse4.2");
#endif
#ifdef __AVX__
    GRADKERN_NEEDS("avx");
#endif
#ifdef __FMA__
    GRADKERN_NEEDS("fma");
#endif
#ifdef __AVX2__
    GRADKERN_NEEDS("avx2");
#endif
#ifdef __AVX512F__
    GRADKERN_NEEDS("avx512f");
#endif
#ifdef __AVX512BW__
    GRADKERN_NEEDS("avx512bw");
#endif
#ifdef __AVX512DQ__
    GRADKERN_NEEDS("avx512dq");
#endif
#ifdef __AVX512VL__
    GRADKERN_NEEDS("avx512vl");
#endif
#ifdef __AVX512VNNI__
    GRADKERN_NEEDS("avx512vnni");
#endif
#ifdef __AVX512BF16__
    GRADKERN_NEEDS("avx512bf16");
#endif
#endif
    return 0;
}
