// Forward passes and data gradients of convolutions.
#define GRADKERN_TEST_CONVOLUTION
#include "engines/engines.hpp"
