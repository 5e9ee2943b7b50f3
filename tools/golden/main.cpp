// gradkern-golden: expected values of every operator, suites of them, and verdicts on other people's results.
//
// Exit codes: 0 all is well; 1 a result was refused, or a list and what it makes differ; 2 the command line is wrong; 3 a
// file is missing or damaged, or a problem is not valid.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <gradkern/cpu.hpp>
#include <gradkern/version.hpp>

#include "compute.hpp"
#include "generate.hpp"
#include "judge.hpp"
#include "npy.hpp"
#include "problem.hpp"
#include "tensor.hpp"

namespace golden {
namespace {

namespace fs = std::filesystem;

enum exit_code : int { good = 0, refused = 1, wrong_command = 2, wrong_file = 3 };

/// What all commands take.
struct common_options {
    std::string only{};
    std::size_t every = 1;
    unsigned jobs = 1;
    bool quiet = false;
};

/// A bar on the terminal; nothing where standard error is none.
class progress {
public:
    progress(std::size_t total, bool quiet) : total_(total), shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
    ~progress() { clear(); }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    void step(const std::string& name) {
        ++done_;
        if (!shown_) return;
        const std::size_t full = done_ * 30 / total_;
        std::cerr << "\r[" << std::string(full, '#') << std::string(30 - full, ' ') << "] " << done_ << "/" << total_
                  << " " << name << "\x1b[K" << std::flush;
    }
    /// Takes the bar away, so that a line can be printed.
    void clear() const {
        if (shown_) std::cerr << "\r\x1b[K" << std::flush;
    }

private:
    std::size_t total_;
    std::size_t done_ = 0;
    bool shown_;
};

/// The outcome of a problem: an exit code, and lines for standard output and standard error.
struct outcome {
    int code = good;
    std::string out{};
    std::string err{};
};

/// Calls work(problem) for all problems, some at once. Prints what they say in their order. One that fails does not stop the
/// others. Returns the largest exit code.
int for_each_problem(std::vector<problem>& problems, const common_options& common,
                     const std::function<outcome(problem&)>& work) {
    progress bar(problems.size(), common.quiet);
    std::vector<outcome> outcomes(problems.size());
    std::vector<bool> done(problems.size());
    std::size_t printed = 0;
    int code = good;
    std::mutex mutex;
    std::atomic<std::size_t> next{0};
    const auto worker = [&] {
        for (std::size_t i = next++; i < problems.size(); i = next++) {
            outcome o;
            try {
                o = work(problems[i]);
            } catch (const std::bad_alloc&) {
                o = {wrong_file, "", "error: " + problems[i].name + ": not enough memory\n"};
            } catch (const std::exception& e) {
                o = {wrong_file, "", std::string("error: ") + e.what() + "\n"};
            }
            const std::lock_guard lock(mutex);
            outcomes[i] = std::move(o);
            done[i] = true;
            bar.step(problems[i].name);
            for (; printed < problems.size() && done[printed]; ++printed) {
                const outcome& p = outcomes[printed];
                code = std::max(code, p.code);
                if (p.out.empty() && p.err.empty()) continue;
                bar.clear();
                std::cout << p.out << std::flush;
                std::cerr << p.err << std::flush;
            }
        }
    };
    std::vector<std::thread> threads;
    for (unsigned j = 1; j < common.jobs; ++j) threads.emplace_back(worker);
    worker();
    for (std::thread& t : threads) t.join();
    return code;
}

/// The problems that --only and --every leave.
[[nodiscard]] std::vector<problem> chosen(const std::vector<problem>& all, const common_options& common) {
    std::vector<problem> some;
    std::size_t matching = 0;
    for (const problem& p : all)
        if (p.name.find(common.only) != std::string::npos && matching++ % common.every == 0) some.push_back(p);
    if (some.empty()) throw failure("there is no problem whose name contains \"" + common.only + "\"");
    return some;
}

/// The inputs of a problem from files. An optional input is read if the problem gives its shape or no shapes at all.
[[nodiscard]] tensors read_inputs(const problem& p, const fs::path& directory) {
    tensors inputs;
    for (const role& r : p.inputs()) {
        const fs::path file = file_of(directory, p, r.name);
        if (r.optional && !p.shapes.contains(r.name) && (!p.shapes.empty() || !fs::exists(file))) continue;
        inputs.emplace(r.name, read_npy(file, p.type_of(r)));
    }
    return inputs;
}

void write_tensors(const fs::path& directory, const problem& p, const tensors& all) {
    for (const auto& [name, t] : all) write_npy(file_of(directory, p, name), t);
}

// ----------------------------------------------------------------------------------------------------------------- run

struct run_options {
    std::vector<std::string> problems{};
    std::string inputs{}, results{}, exact{}, bounds{};
};

int run_command(const run_options& options, const common_options& common) {
    if (options.results.empty() && options.exact.empty() && options.bounds.empty())
        throw CLI::RequiredError("one of --results, --exact and --bounds");
    int code = good;
    for (const std::string& name : options.problems) {
        const fs::path file = fs::is_directory(name) ? fs::path(name) / "suite.json" : fs::path(name);
        std::vector<problem> problems = chosen(read_problems(file), common);
        fs::path directory = options.inputs;
        if (directory.empty())
            directory =
                fs::is_directory(file.parent_path() / "inputs") ? file.parent_path() / "inputs" : file.parent_path();
        code = std::max(code, for_each_problem(problems, common, [&](problem& p) {
                            const tensors inputs = read_inputs(p, directory);
                            complete_shapes(p, inputs);
                            if (!options.results.empty()) write_tensors(options.results, p, results(p, inputs));
                            if (options.exact.empty() && options.bounds.empty()) return outcome{};
                            const expectation e = expected(p, inputs);
                            if (!options.exact.empty()) write_tensors(options.exact, p, e.exact);
                            if (!options.bounds.empty()) write_tensors(options.bounds, p, e.bounds);
                            return outcome{};
                        }));
    }
    return code;
}

// ------------------------------------------------------------------------------------------------------------ generate

struct generate_options {
    std::string directory{}, from{}, list{};
    std::vector<std::string> operators{"all"}, types{"all"}, layouts{"ncx", "nxc"}, sizes{"small"};
    std::size_t count = 10;
    std::uint64_t seed = 1;
};

/// The numbers of words in a list of words; "all" is each of them.
template <class T>
[[nodiscard]] std::vector<T> numbers_of(const std::vector<std::string>& words, const std::vector<std::string>& known,
                                        const std::vector<T>& values, const char* option) {
    std::vector<T> found;
    for (const std::string& word : words) {
        if (word == "all") {
            found = values;
            continue;
        }
        const auto at = std::find(known.begin(), known.end(), word);
        if (at == known.end()) {
            std::string expected;
            for (const std::string& k : known) expected += ", " + k;
            throw CLI::ValidationError(option, "\"" + word + "\", expected all" + expected);
        }
        const T value = values[static_cast<std::size_t>(at - known.begin())];
        if (std::find(found.begin(), found.end(), value) == found.end()) found.push_back(value);
    }
    return found;
}

[[nodiscard]] generate_request request_of(const generate_options& options) {
    std::vector<std::string> operator_names, type_names;
    std::vector<op> ops;
    std::vector<element> types;
    std::vector<std::string> asked;
    for (const std::string& word : options.operators) {
        if (word != "gradients") asked.push_back(word);
        for (const operator_facts& f : golden::operators())
            if (word == "gradients" && f.is_gradient) asked.emplace_back(f.name);
    }
    for (const operator_facts& f : golden::operators()) {
        operator_names.emplace_back(f.name);
        ops.push_back(f.id);
    }
    for (const element_facts& f : elements) {
        if (!f.computes) continue;
        type_names.emplace_back(f.name);
        types.push_back(f.type);
    }
    return {.operators = numbers_of(asked, operator_names, ops, "--operators"),
            .types = numbers_of(options.types, type_names, types, "--types"),
            .layouts = numbers_of<gk::data_format>(options.layouts, {"nxc", "ncx"},
                                                   {gk::data_format::nxc, gk::data_format::ncx}, "--layouts"),
            .sizes = numbers_of<size_class>(options.sizes, {"small", "medium", "large"},
                                            {size_class::small, size_class::medium, size_class::large}, "--sizes"),
            .count = options.count,
            .seed = options.seed};
}

int generate_command(const generate_options& options, const common_options& common) {
    if (options.directory.empty() && options.list.empty()) throw CLI::RequiredError("DIRECTORY or --list");
    std::vector<problem> problems =
        chosen(options.from.empty() ? generate(request_of(options)) : read_problems(options.from), common);
    const fs::path directory = options.directory;
    const int code = for_each_problem(problems, common, [&](problem& p) {
        if (!p.values) throw failure(p.name + ": has no values");
        complete_shapes(p, {});
        const tensors inputs = make_inputs(p);
        const expectation e = expected(p, inputs);
        if (!options.directory.empty()) {
            write_tensors(directory / "inputs", p, inputs);
            write_tensors(directory / "expected", p, e.exact);
            write_tensors(directory / "bounds", p, e.bounds);
        }
        const std::string input_hash = hash_of(inputs, p.inputs());
        const std::string expected_hash = hash_of(e.exact, p.facts().outputs);
        const bool same = p.input_hash.empty() || (p.input_hash == input_hash && p.expected_hash == expected_hash);
        const char* const what = p.input_hash == input_hash ? "expected values" : "inputs";
        p.input_hash = input_hash;
        p.expected_hash = expected_hash;
        return same ? outcome{}
                    : outcome{refused, "", p.name + ": its " + what + " have another hash than in the list\n"};
    });
    json about{{"format", "gradkern-golden 1"}, {"count", problems.size()}};
    if (options.from.empty()) about["seed"] = options.seed;
    about["bf16"] = "bit patterns as uint16, as ml_dtypes views them";
    if (!options.directory.empty()) write_problems(directory / "suite.json", problems, about);
    if (!options.list.empty()) write_problems(options.list, problems, about);
    if (!common.quiet) std::cout << problems.size() << " problems\n";
    return code;
}

// -------------------------------------------------------------------------------------------------------------- verify

struct verify_options {
    std::string suite{}, results{}, report{};
    bool skip_missing = false;
};

/// The line of a report on one problem.
struct finding {
    std::string verdict = "pass";
    double worst = 0;
    std::vector<std::string> messages{};
};

[[nodiscard]] finding verify(const problem& p, const verify_options& options) {
    finding f;
    const fs::path suite = options.suite;
    std::size_t missing = 0;
    const std::vector<role> outputs = p.wanted_outputs();
    for (const role& r : outputs) {
        const tensor exact = read_npy(file_of(suite / "expected", p, r.name), r.is_index ? element::i64 : element::f64);
        const tensor limits = read_npy(file_of(suite / "bounds", p, r.name), element::f64);
        if (exact.shape != p.shape_of(r.name) || limits.shape != exact.shape)
            throw failure(p.name + ": the suite's " + r.name + " has another shape than its problem says");
        const fs::path file = file_of(options.results, p, r.name);
        if (!fs::exists(file)) {
            ++missing;
            if (!options.skip_missing) f.messages.push_back(file.string() + ": there is no such file");
            continue;
        }
        tensor result;
        try {  // somebody else's file: a verdict, not an error
            result = read_npy(file, p.type_of(r));
        } catch (const failure& e) {
            f.messages.emplace_back(e.what());
            continue;
        }
        if (result.shape != exact.shape) {
            f.messages.push_back(file.string() + ": has the shape " + text_of(result.shape) + ", expected " +
                                 text_of(exact.shape));
            continue;
        }
        const verdict v = judge(result, exact, limits);
        f.worst = std::max(f.worst, v.worst);
        if (!v.passes()) f.messages.push_back(text_of(v, r.name, exact.shape));
    }
    if (!f.messages.empty()) {
        f.verdict = "fail";
    } else if (missing == outputs.size()) {
        f.verdict = "skip";
    }
    return f;
}

int verify_command(const verify_options& options, const common_options& common) {
    if (!fs::is_directory(options.results)) throw failure(options.results + ": there is no such directory");
    std::vector<problem> problems = chosen(read_problems(fs::path(options.suite) / "suite.json"), common);
    json rows = json::array();
    std::size_t passed = 0, failed = 0, skipped = 0;
    std::mutex mutex;
    const int code = for_each_problem(problems, common, [&](problem& p) {
        const finding f = verify(p, options);
        json row{{"name", p.name}, {"verdict", f.verdict}};
        row["worst"] = std::isfinite(f.worst) ? json(f.worst) : json("infinite");
        if (!f.messages.empty()) row["messages"] = f.messages;
        outcome o;
        for (const std::string& m : f.messages) o.out += "FAIL " + p.name + ": " + m + "\n";
        o.code = f.verdict == "fail" ? refused : good;
        const std::lock_guard lock(mutex);
        (f.verdict == "pass" ? passed : f.verdict == "fail" ? failed : skipped)++;
        rows.push_back(std::move(row));
        return o;
    });
    std::sort(rows.begin(), rows.end(), [](const json& a, const json& b) { return a["name"] < b["name"]; });
    std::cout << passed << " passed, " << failed << " failed, " << skipped << " skipped, of " << problems.size()
              << "\n";
    if (!options.report.empty()) {
        const json report{{"passed", passed}, {"failed", failed}, {"skipped", skipped}, {"problems", rows}};
        std::ofstream out(options.report);
        out << report.dump(1) << "\n";
        out.close();
        if (!out) throw failure(options.report + ": cannot be written");
    }
    return code;
}

// ------------------------------------------------------------------------------------------------------------- command

int command_line(int argc, char** argv) {
    CLI::App app{"Expected values of pools, convolutions and their gradients, and verdicts on results."};
    const int version[]{GRADKERN_VERSION_MAJOR, GRADKERN_VERSION_MINOR, GRADKERN_VERSION_PATCH};
    app.set_version_flag("--version", "gradkern-golden " + std::to_string(version[0]) + "." +
                                          std::to_string(version[1]) + "." + std::to_string(version[2]));
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 all is well; 1 a result was refused; 2 the command line is wrong; 3 a file is missing or "
        "damaged,\n"
        "or a problem is not valid. docs/conformance.md describes problems and files.");
    common_options common;
    const auto add_common = [&](CLI::App* command) {
        command->add_option("--only", common.only, "only problems whose names contain this text");
        command->add_option("--every", common.every, "only the first of every N problems")->check(CLI::PositiveNumber);
        command->add_option("-j,--jobs", common.jobs, "problems at once")->check(CLI::Range(1, 256));
        command->add_flag("-q,--quiet", common.quiet, "no progress bar and no summary of generate");
    };
    run_options run;
    CLI::App* const run_app = app.add_subcommand("run", "Compute the outputs of problems");
    run_app->add_option("problems", run.problems, "JSON files, or directories of suites")->required();
    run_app->add_option("--inputs", run.inputs,
                        "directory of NAME.TENSOR.npy; default: inputs beside the JSON file, else where that is");
    run_app->add_option("--results", run.results, "directory for what gradkern computes");
    run_app->add_option("--exact", run.exact, "directory for exact outputs in f64");
    run_app->add_option("--bounds", run.bounds, "directory for the bounds of each element's error in f64");
    add_common(run_app);

    generate_options make;
    CLI::App* const make_app =
        app.add_subcommand("generate", "Write a suite: problems, inputs, expected values, bounds");
    make_app->add_option("directory", make.directory, "directory for the suite");
    make_app->add_option("--operators", make.operators, "names, all, or gradients")
        ->delimiter(',')
        ->capture_default_str();
    make_app->add_option("--types", make.types, "f32, f16, bf16, f64, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--layouts", make.layouts, "ncx, nxc, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--sizes", make.sizes, "small, medium, large, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--count", make.count, "problems of each operator and type")
        ->check(CLI::Range(1, 9999))
        ->capture_default_str();
    make_app->add_option("--seed", make.seed, "another seed gives other problems")->capture_default_str();
    make_app->add_option("--from", make.from, "make the problems of this list again, and compare their hashes")
        ->check(CLI::ExistingFile);
    make_app->add_option("--list", make.list, "also write the list of problems with their hashes here");
    add_common(make_app);

    verify_options check;
    CLI::App* const check_app = app.add_subcommand("verify", "Judge results by a suite");
    check_app->add_option("suite", check.suite, "directory that generate wrote")->required();
    check_app->add_option("results", check.results, "directory of NAME.TENSOR.npy")->required();
    check_app->add_option("--report", check.report, "write all verdicts to this JSON file");
    check_app->add_flag("--skip-missing", check.skip_missing, "problems without results are no failures");
    add_common(check_app);

    try {
        app.parse(argc, argv);
        if (*run_app) return run_command(run, common);
        if (*make_app) return generate_command(make, common);
        return verify_command(check, common);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? good : wrong_command;
    }
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
    if (const char* const missing = gradkern::missing_cpu_feature()) {
        std::cerr << "error: this program needs a CPU with " << missing << '\n';
        return golden::wrong_file;
    }
    try {
        return golden::command_line(argc, argv);
    } catch (const std::exception& e) {
        std::cerr << "error: " << e.what() << '\n';
        return golden::wrong_file;
    }
}
