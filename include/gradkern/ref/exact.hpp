// Every correctly rounded reference: ref::exact::X takes the arguments of ref::X. Optional: gradkern.hpp does not include it.
#pragma once

#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/avg_pool.hpp>
#include <gradkern/ref/exact/bias.hpp>
#include <gradkern/ref/exact/conv_transpose.hpp>
#include <gradkern/ref/exact/convolution.hpp>
#include <gradkern/ref/exact/lp_pool.hpp>
#include <gradkern/ref/exact/max_pool.hpp>
