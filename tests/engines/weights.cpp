// Gradients of weights and biases.
#define GRADKERN_TEST_WEIGHTS
#include "engines/engines.hpp"
