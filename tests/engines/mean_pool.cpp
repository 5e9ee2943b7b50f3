// Average and Lp pools, and their gradients.
#define GRADKERN_TEST_MEAN_POOL
#include "engines/engines.hpp"
