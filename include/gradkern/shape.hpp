// Shapes and padding of every operator: one axis type, auto_pad and rounding rules, layouts, checks and inference.
#pragma once

#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/shape/padding.hpp>
#include <gradkern/shape/pooling.hpp>
