// Max pools, and their gradients from inputs and from indices.
#define GRADKERN_TEST_MAX_POOL
#include "engines/engines.hpp"
