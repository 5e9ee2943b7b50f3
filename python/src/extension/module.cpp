// The extension module gradkern._native.
#include <nanobind/nanobind.h>

#include "judge.hpp"
#include "plan.hpp"
#include "problem.hpp"
#include "tensor.hpp"

NB_MODULE(_native, m) {
    m.doc() = "What the package gradkern is made of; no interface of its own.";
    nanobind::exception<gradkern_python::mistake>(m, "Error", PyExc_ValueError);
    gradkern_python::bind_tensor(m);
    gradkern_python::bind_problem(m);
    gradkern_python::bind_plan(m);
    gradkern_python::bind_judge(m);
}
