// Macros named I and complex before the headers, and everything instantiated.
#include <complex.h>

#define GRADKERN_ONE_PROGRAM warnings
#include "../one_program/body.cpp"
