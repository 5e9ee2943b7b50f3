// Tools for those who test kernels of their own: a verdict with a bound for each element, inputs that bring out mistakes, and
// checks of gradients without a reference. docs/testing.md is an introduction.
//
//     #include <gradkern/testing.hpp>
//     using namespace gradkern;
//     test::fill(tensor_view(dy.data(), dst), test::pattern::near_ties, 1);   // the same numbers on every machine
//     your_kernel(dy.data(), dx.data());
//     const test::report r = test::compare(tensor_view(dx.data(), src), {test::operation::avg_pool_backward, pool},
//                                          {.diff_dst = tensor_view(dy.data(), dst)});
//     std::cout << r;                                                         // the worst elements, bias and variance
//
// All of it is in namespace gradkern::test: `testing` is GoogleTest's. It throws nothing, and may allocate. gradkern.hpp does not
// include it; testing/gtest.hpp has assertions and matchers for GoogleTest.
#pragma once

#include <gradkern/testing/compare.hpp>
#include <gradkern/testing/derivatives.hpp>
#include <gradkern/testing/generate.hpp>
#include <gradkern/testing/problem.hpp>
#include <gradkern/testing/report.hpp>
