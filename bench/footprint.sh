#!/usr/bin/env bash
# What the library costs to compile: seconds for a file that calls one operator, and the text of the whole convolution
# family in three element types.
#
#     bench/footprint.sh [compiler [flags...]]      by default g++ -O2 -march=x86-64-v4
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler=${1:-g++}
shift || true
(($#)) || set -- -O2 -march=x86-64-v4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/one.cpp" <<'CPP'
#include <gradkern/convolution.hpp>
gradkern::status run(gradkern::tensor_view<const float> diff_dst, gradkern::tensor_view<const float> weights,
                     gradkern::tensor_view<float> diff_src) {
    return gradkern::convolution_backward_data<float>(diff_dst, weights, {}, diff_src);
}
CPP

cat >"$folder/family.cpp" <<'CPP'
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
namespace gradkern {
template <class T>
status all(tensor_view<const T> a, tensor_view<const T> b, tensor_view<T> c) {
    status s = convolution<T>(a, b, {}, convolution_attributes{}, c);
    if (s) s = convolution_backward_data<T>(a, b, convolution_attributes{}, c);
    if (s) s = convolution_backward_weights<T>(a, b, convolution_attributes{}, c);
    if (s) s = conv_transpose<T>(a, b, {}, conv_transpose_attributes{}, c);
    if (s) s = conv_transpose_backward_data<T>(a, b, conv_transpose_attributes{}, c);
    if (s) s = conv_transpose_backward_weights<T>(a, b, conv_transpose_attributes{}, c);
    if (s) s = bias_backward<T>(a, bias_attributes{}, c);
    return s;
}
template status all<float>(tensor_view<const float>, tensor_view<const float>, tensor_view<float>);
template status all<float16>(tensor_view<const float16>, tensor_view<const float16>, tensor_view<float16>);
template status all<bfloat16>(tensor_view<const bfloat16>, tensor_view<const bfloat16>, tensor_view<bfloat16>);
}  // namespace gradkern
CPP

compile() { "$compiler" -std=c++20 -DNDEBUG "$@" -Iinclude -c "$folder/$name.cpp" -o "$folder/$name.o"; }
echo "$compiler $*, $("$compiler" -dumpfullversion 2>/dev/null || "$compiler" -dumpversion)"
for name in one family; do
    TIMEFORMAT='%U'
    seconds=$({ time compile "$@"; } 2>&1)
    printf '%-8s %6s s of CPU time, %4d KB of text\n' "$name" "$seconds" \
        $(($(size "$folder/$name.o" | awk 'NR == 2 {print $1}') / 1024))
done
