// How the programs of the documents say that what they show holds.
#pragma once

#include <iostream>

#include <gradkern/error_text.hpp>
#include <gradkern/status.hpp>

struct outcome {  // initialised in braces: first the call, then what became of it
    const char* name;
    gradkern::status result;
    bool as_expected;
};

/// Prints the name of each outcome that is not as expected, and counts them.
struct checks {
    int failures = 0;

    void operator()(const outcome& o) {
        if (o.result && o.as_expected) return;
        std::cerr << o.name << ": " << o.result << '\n';
        ++failures;
    }
};
